//! Redirecting a loaded library's imports, by the table through which it calls them.
//!
//! Follows the System V ABI, "Dynamic Linking": `DT_JMPREL` lists the slots (`JUMP_SLOT`) that hold
//! the addresses of imported functions. x86-64 and AArch64 alike use `Elf64_Rela` entries.

use libc::{c_int, c_void, dl_phdr_info, size_t, Elf64_Phdr, Elf64_Rela, Elf64_Sym};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

const PT_GNU_RELRO: u32 = 0x6474_e552;
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_PLTREL: i64 = 20;
const DT_RELA: i64 = 7;
const DT_JMPREL: i64 = 23;

/// An entry of the dynamic section (`Elf64_Dyn`).
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

struct Search<'a> {
    library: &'a str,
    replacements: &'a [(&'a CStr, usize)],
    redirected: usize,
}

/// Points the imports of the library whose path ends in `library` at their replacements.
///
/// Returns how many were redirected.
pub fn redirect(library: &str, replacements: &[(&CStr, usize)]) -> usize {
    let mut search = Search {
        library,
        replacements,
        redirected: 0,
    };
    // SAFETY: the callback runs during the call only, with the pointer to `search` given here.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.redirected
}

pub fn page_size() -> usize {
    // SAFETY: a query without arguments in memory; Linux always knows its page size.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Called by the dynamic linker, under its lock, for every loaded library.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: size_t, data: *mut c_void) -> c_int {
    let search = &mut *data.cast::<Search>();
    let info = &*info;
    if info.dlpi_name.is_null()
        || !CStr::from_ptr(info.dlpi_name)
            .to_bytes()
            .ends_with(search.library.as_bytes())
    {
        return 0;
    }
    let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
    let base = info.dlpi_addr as usize;
    if let Some(imports) = Imports::read(base, headers) {
        search.redirected = imports.redirect(search.replacements);
    }
    1
}

/// The imported functions of one loaded library.
struct Imports<'a> {
    base: usize,
    slots: &'a [Elf64_Rela],
    symbols: *const Elf64_Sym,
    names: *const libc::c_char,
    /// Addresses that the linker made read-only after it had filled them in.
    read_only: std::ops::Range<usize>,
}

impl Imports<'_> {
    unsafe fn read(base: usize, headers: &[Elf64_Phdr]) -> Option<Self> {
        let find = |kind| headers.iter().find(|header| header.p_type == kind);
        let mut entry = (base + find(libc::PT_DYNAMIC)?.p_vaddr as usize) as *const Dynamic;
        let (mut slots, mut bytes, mut symbols, mut names, mut kind) = (0, 0, 0, 0, 0);
        while (*entry).tag != DT_NULL {
            let value = (*entry).value;
            match (*entry).tag {
                DT_JMPREL => slots = value,
                DT_PLTRELSZ => bytes = value,
                DT_SYMTAB => symbols = value,
                DT_STRTAB => names = value,
                DT_PLTREL => kind = value as i64,
                _ => {}
            }
            entry = entry.add(1);
        }
        if [slots, bytes, symbols, names].contains(&0) || kind != DT_RELA {
            return None;
        }
        // glibc relocates these addresses in place, except where the section is read-only.
        let absolute = |address| {
            if address < base {
                base + address
            } else {
                address
            }
        };
        let read_only = find(PT_GNU_RELRO).map_or(0..0, |header| {
            let start = base + header.p_vaddr as usize;
            start..start + header.p_memsz as usize
        });
        Some(Self {
            base,
            slots: std::slice::from_raw_parts(
                absolute(slots) as *const Elf64_Rela,
                bytes / size_of::<Elf64_Rela>(),
            ),
            symbols: absolute(symbols) as *const Elf64_Sym,
            names: absolute(names) as *const libc::c_char,
            read_only,
        })
    }

    unsafe fn redirect(&self, replacements: &[(&CStr, usize)]) -> usize {
        let mut redirected = 0;
        for slot in self.slots {
            let symbol = &*self.symbols.add((slot.r_info >> 32) as usize);
            let name = CStr::from_ptr(self.names.add(symbol.st_name as usize));
            let replacement = replacements.iter().find(|(wanted, _)| *wanted == name);
            if let Some((_, function)) = replacement {
                let address = self.base + slot.r_offset as usize;
                redirected += usize::from(self.write(address, *function));
            }
        }
        redirected
    }

    /// Writes one slot, and says whether the kernel let it.
    unsafe fn write(&self, address: usize, function: usize) -> bool {
        let page = (address & !(page_size() - 1)) as *mut c_void;
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        if libc::mprotect(page, page_size(), writable) != 0 {
            return false;
        }
        // Other threads may be calling through the slot: they see the old address or the new one.
        (*(address as *const AtomicUsize)).store(function, Ordering::Release);
        if self.read_only.contains(&address) {
            libc::mprotect(page, page_size(), libc::PROT_READ);
        }
        true
    }
}
