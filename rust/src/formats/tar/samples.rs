//! Samples of an archive: members whose names agree up to the first dot.

use super::archive::{Archive, Member};
use super::defect::{Cause, Defect};
use std::fmt;

/// What a sample is to hold.
pub struct SampleSpec {
    /// What comes after the first dot of members' names, in lower case.
    pub extensions: Vec<Vec<u8>>,
    /// For each extension, what stands for it in samples that lack it.
    pub defaults: Vec<Option<Vec<u8>>>,
    /// Whether members with other extensions are passed over, not wrong.
    pub others: bool,
    /// The most bytes of a sample.
    pub most: u64,
}

/// The content of a sample's members, in the order of `SampleSpec::extensions`.
#[derive(Debug, PartialEq, Eq)]
pub struct Sample {
    pub key: Vec<u8>,
    pub values: Vec<Vec<u8>>,
}

/// A sample that is not as wanted; the next one may be.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    Lacks { key: String, extension: String },
    Twice { key: String, extension: String },
    Unexpected { key: String, extension: String },
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks { key, extension } => write!(
                to,
                "sample {key:?} has no {extension:?}; pass default_values={{{extension:?}: b\"\"}}"
            ),
            Self::Twice { key, extension } => {
                write!(to, "sample {key:?} has {extension:?} more than once")
            }
            Self::Unexpected { key, extension } => write!(
                to,
                "sample {key:?} has also {extension:?}, which the first one has not; pass \
                 extensions= to say which to read"
            ),
        }
    }
}

/// Why there is no sample, and where it would begin.
#[derive(Debug)]
pub struct Failure {
    pub cause: FailureCause,
    pub offset: u64,
    pub number: u64,
}

#[derive(Debug)]
pub enum FailureCause {
    /// The archive cannot be read on.
    Archive(Cause),
    Sample(Wrong),
}

/// Reads an archive's samples in order. Once reading failed it has no more.
pub struct Samples {
    archive: Archive,
    spec: SampleSpec,
    held: Option<(Member, Name)>,
    /// What is wrong after the last sample.
    after: Option<Cause>,
    number: u64,
    done: bool,
}

struct Name {
    key: Vec<u8>,
    extension: Vec<u8>,
}

impl Samples {
    /// Reads an archive that begins `number` samples into its file.
    pub fn new(archive: Archive, spec: SampleSpec, number: u64) -> Self {
        Self {
            archive,
            spec,
            held: None,
            after: None,
            number,
            done: false,
        }
    }

    /// How many bytes and samples came before the next one.
    pub fn position(&self) -> (u64, u64) {
        let held = self.held.as_ref().map(|(member, _)| member.start);
        (held.unwrap_or(self.archive.offset()), self.number)
    }

    /// How many members a sample has.
    pub fn width(&self) -> usize {
        self.spec.extensions.len()
    }

    /// The next sample; `None` at the end.
    pub fn next_sample(&mut self) -> Option<Result<Sample, Failure>> {
        if self.done {
            return None;
        }
        let (start, number) = self.position();
        let mut reached = start;
        let sample = self.sample(&mut reached);
        self.done |= matches!(sample, Ok(None) | Err(_));
        let failed = |cause, offset| Failure {
            cause,
            offset,
            number,
        };
        match sample {
            Ok(None) => None,
            Ok(Some(found)) => {
                self.number += 1;
                Some(found.map_err(|wrong| failed(FailureCause::Sample(wrong), start)))
            }
            Err(cause) => Some(Err(failed(FailureCause::Archive(cause), reached))),
        }
    }

    /// The next sample; `offset` is where reading it stands.
    fn sample(&mut self, offset: &mut u64) -> Result<Option<Result<Sample, Wrong>>, Cause> {
        let Some((mut member, mut name)) = self.next_named(offset)? else {
            return Ok(None);
        };
        let key = name.key.clone();
        let mut values = vec![None; self.spec.extensions.len()];
        let (mut wrong, mut total) = (None, 0u64);
        loop {
            *offset = member.start;
            let place = self.place(&name.extension);
            match place {
                Some(place) => {
                    total = total.saturating_add(member.size);
                    if total > self.spec.most {
                        let (bytes, most) = (total, self.spec.most);
                        return Err(Defect::TooLong { bytes, most }.into());
                    }
                    let content = self.archive.content(member.size)?;
                    if values[place].replace(content).is_some() {
                        let (key, extension) = (lossy(&key), lossy(&name.extension));
                        wrong.get_or_insert(Wrong::Twice { key, extension });
                    }
                }
                None => {
                    self.archive.pass(member.size)?;
                    if !self.spec.others {
                        let (key, extension) = (lossy(&key), lossy(&name.extension));
                        wrong.get_or_insert(Wrong::Unexpected { key, extension });
                    }
                }
            }
            *offset = self.archive.offset();
            match self.next_named(offset) {
                Ok(Some((next, its))) if its.key == key => (member, name) = (next, its),
                Ok(next) => {
                    self.held = next;
                    break;
                }
                Err(Cause::Defect(defect)) if defect.is_past_members() => {
                    self.after = Some(defect.into());
                    break;
                }
                Err(cause) => return Err(cause),
            }
        }
        Ok(Some(match wrong {
            Some(wrong) => Err(wrong),
            None => self.complete(key, values),
        }))
    }

    fn place(&self, extension: &[u8]) -> Option<usize> {
        let extensions = &self.spec.extensions;
        extensions.iter().position(|wanted| wanted == extension)
    }

    fn complete(&self, key: Vec<u8>, values: Vec<Option<Vec<u8>>>) -> Result<Sample, Wrong> {
        let mut complete = Vec::with_capacity(values.len());
        for (place, value) in values.into_iter().enumerate() {
            match value.or_else(|| self.spec.defaults[place].clone()) {
                Some(value) => complete.push(value),
                None => {
                    let extension = lossy(&self.spec.extensions[place]);
                    let key = lossy(&key);
                    return Err(Wrong::Lacks { key, extension });
                }
            }
        }
        Ok(Sample {
            key,
            values: complete,
        })
    }

    fn next_named(&mut self, offset: &mut u64) -> Result<Option<(Member, Name)>, Cause> {
        if let Some(cause) = self.after.take() {
            return Err(cause);
        }
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        next_named(&mut self.archive, offset)
    }
}

/// The next member that belongs to a sample.
fn next_named(archive: &mut Archive, offset: &mut u64) -> Result<Option<(Member, Name)>, Cause> {
    while let Some(member) = archive.next_member()? {
        *offset = member.start;
        if let Some(name) = split(&member.path) {
            return Ok(Some((member, name)));
        }
        archive.pass(member.size)?;
        *offset = archive.offset();
    }
    Ok(None)
}

/// The extensions of the archive's first sample, each once.
pub fn first_extensions(archive: &mut Archive) -> Result<Vec<Vec<u8>>, Cause> {
    let mut offset = 0;
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut key: Option<Vec<u8>> = None;
    while let Some((member, name)) = next_named(archive, &mut offset)? {
        if *key.get_or_insert(name.key.clone()) != name.key {
            break;
        }
        if !found.contains(&name.extension) {
            found.push(name.extension);
        }
        archive.pass(member.size)?;
    }
    Ok(found)
}

/// A path's key and extension: the folder's dots do not count. `None` without a name or a dot, and
/// for `__names__` like these, as in WebDataset.
fn split(path: &[u8]) -> Option<Name> {
    let folder = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let name = &path[folder..];
    if folder == 0 && name.starts_with(b"__") && name.ends_with(b"__") {
        return None;
    }
    let dot = memchr::memchr(b'.', name).filter(|&dot| dot > 0)?;
    Some(Name {
        key: path[..folder + dot].to_vec(),
        extension: name[dot + 1..].to_ascii_lowercase(),
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
