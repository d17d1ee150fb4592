//! Decoding of JPEG files alone: drumline's decoder beside libjpeg-turbo and zune-jpeg.
//!
//! `jpeg [--rounds N] [FILE_OR_FOLDER ...]` decodes every file with every decoder in one thread, by
//! turns, N times (9), and prints a table of medians in Markdown. Without paths images are made:
//! smooth gradients with noise, of four sizes and three kinds of subsampling.
//!
//! Tasks are the whole image; the image at 1/2, 1/4 and 1/8 of its size, which libjpeg-turbo has,
//! too; and a window of half the height and width in the middle, for which peers decode the whole.
//! Each decoder makes interleaved RGB in memory of its own for each image. The greatest difference
//! from libjpeg-turbo's pixels (accurate transform, smooth upsampling) is printed beside the speed.

use std::path::{Path, PathBuf};
use std::time::Instant;

use _core::images::image::{Limits, Window};
use _core::images::jpeg::{self, Request};
use turbojpeg::{Decompressor, Image, PixelFormat, ScalingFactor};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;

#[derive(Clone, Copy, PartialEq)]
enum Task {
    /// The image at this part of its size.
    Scaled(usize),
    /// A window of half the height and width in the middle.
    Middle,
}

/// What decodes a file for a task, if it can.
struct Contender {
    name: &'static str,
    decode: fn(&[u8], Task) -> Option<Vec<u8>>,
}

const CONTENDERS: [Contender; 3] = [
    Contender {
        name: "drumline",
        decode: with_drumline,
    },
    Contender {
        name: "libjpeg-turbo",
        decode: with_turbo,
    },
    Contender {
        name: "zune-jpeg",
        decode: with_zune,
    },
];

fn with_drumline(bytes: &[u8], task: Task) -> Option<Vec<u8>> {
    let ratio = match task {
        Task::Scaled(ratio) => ratio,
        Task::Middle => 1,
    };
    let request = Request {
        channels: 3,
        ratio,
        smooth: true,
        recover: false,
        acceptable: 1.0,
        limits: Limits {
            pixels: 1 << 30,
            bytes: 1 << 32,
            expansion: u64::MAX,
        },
    };
    let choose = |height, width| {
        Ok(match task {
            Task::Scaled(_) => None,
            Task::Middle => Some(middle(height, width)),
        })
    };
    let image = jpeg::decode(bytes, &request, choose, |length| vec![0; length]);
    Some(image.expect("drumline decodes the file").data)
}

fn middle(height: usize, width: usize) -> Window {
    Window {
        top: height / 4,
        left: width / 4,
        height: height / 2,
        width: width / 2,
    }
}

fn with_turbo(bytes: &[u8], task: Task) -> Option<Vec<u8>> {
    let mut decompressor = Decompressor::new().expect("libjpeg-turbo starts");
    let ratio = match task {
        Task::Scaled(ratio) => ratio,
        Task::Middle => 1,
    };
    decompressor
        .set_scaling_factor(ScalingFactor::new(1, ratio))
        .expect("a ratio it has");
    let header = decompressor.read_header(bytes).expect("a header");
    let header = header.scaled(ScalingFactor::new(1, ratio));
    let (width, height) = (header.width, header.height);
    let mut pixels = vec![0; width * height * 3];
    let image = Image {
        pixels: &mut pixels[..],
        width,
        pitch: width * 3,
        height,
        format: PixelFormat::RGB,
    };
    decompressor
        .decompress(bytes, image)
        .expect("libjpeg-turbo decodes the file");
    Some(match task {
        Task::Scaled(_) => pixels,
        Task::Middle => cropped(&pixels, height, width),
    })
}

fn with_zune(bytes: &[u8], task: Task) -> Option<Vec<u8>> {
    if matches!(task, Task::Scaled(ratio) if ratio > 1) {
        return None;
    }
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let pixels = decoder.decode().expect("zune-jpeg decodes the file");
    let (width, height) = decoder.dimensions().expect("dimensions");
    Some(match task {
        Task::Scaled(_) => pixels,
        Task::Middle => cropped(&pixels, height, width),
    })
}

fn cropped(pixels: &[u8], height: usize, width: usize) -> Vec<u8> {
    let window = middle(height, width);
    let mut part = Vec::with_capacity(window.height * window.width * 3);
    for y in window.top..window.top + window.height {
        let start = (y * width + window.left) * 3;
        part.extend_from_slice(&pixels[start..start + window.width * 3]);
    }
    part
}

fn main() {
    let mut rounds = 9;
    let mut paths = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            let given = arguments.next().and_then(|number| number.parse().ok());
            rounds = given
                .filter(|&number| number > 0)
                .expect("--rounds takes a number above 0");
        } else {
            paths.push(PathBuf::from(argument));
        }
    }
    let (files, about) = if paths.is_empty() {
        (generated(), "images that were generated".to_owned())
    } else {
        let files = read(&paths);
        let about = format!("{} files", files.len());
        (files, about)
    };
    assert!(
        !files.is_empty(),
        "there is no .jpg or .jpeg file in {paths:?}"
    );
    let bytes: usize = files.iter().map(Vec::len).sum();
    println!(
        "{about}, {:.1} MB; {rounds} rounds, one thread.\n",
        bytes as f64 / 1e6
    );
    println!(
        "| task | decoder | images/s | MB of pixels/s | drumline / it | greatest difference from \
         libjpeg-turbo |\n| --- | --- | ---: | ---: | ---: | ---: |"
    );
    let tasks = [
        ("whole image", Task::Scaled(1)),
        ("1/2 of the size", Task::Scaled(2)),
        ("1/4 of the size", Task::Scaled(4)),
        ("1/8 of the size", Task::Scaled(8)),
        ("middle window", Task::Middle),
    ];
    for (title, task) in tasks {
        compare(title, task, &files, rounds);
    }
}

fn compare(title: &str, task: Task, files: &[Vec<u8>], rounds: usize) {
    let mut values = 0;
    let mut differences = [None; CONTENDERS.len()];
    for file in files {
        let reference = with_turbo(file, task).expect("libjpeg-turbo has every task");
        values += reference.len();
        for (contender, difference) in CONTENDERS.iter().zip(&mut differences) {
            let Some(pixels) = (contender.decode)(file, task) else {
                continue;
            };
            assert_eq!(
                pixels.len(),
                reference.len(),
                "{} made another size",
                contender.name
            );
            let pairs = pixels.iter().zip(&reference);
            let greatest = pairs.map(|(&a, &b)| a.abs_diff(b)).max().unwrap_or(0);
            *difference = Some(difference.unwrap_or(0).max(greatest));
        }
    }
    let mut seconds = [const { Vec::new() }; CONTENDERS.len()];
    for round in 0..rounds {
        for turn in 0..CONTENDERS.len() {
            let which = (round + turn) % CONTENDERS.len();
            if differences[which].is_none() {
                continue;
            }
            let start = Instant::now();
            for file in files {
                std::hint::black_box((CONTENDERS[which].decode)(file, task));
            }
            seconds[which].push(start.elapsed().as_secs_f64());
        }
    }
    for (which, contender) in CONTENDERS.iter().enumerate() {
        let Some(difference) = differences[which] else {
            continue;
        };
        let ratios = seconds[which]
            .iter()
            .zip(&seconds[0])
            .map(|(its, ours)| its / ours);
        let ratios = sorted(ratios.collect());
        let time = median(&sorted(seconds[which].clone()));
        let ratio = if which == 0 {
            String::new()
        } else {
            let (least, greatest) = (ratios[0], ratios[ratios.len() - 1]);
            format!("{:.2}x ({least:.2}x .. {greatest:.2}x)", median(&ratios))
        };
        println!(
            "| {title} | {} | {:.0} | {:.0} | {ratio} | {difference} |",
            contender.name,
            files.len() as f64 / time,
            values as f64 / 1e6 / time,
        );
    }
}

fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// The JPEG files at these paths, and in folders among them.
fn read(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("the folder can be read");
            let inside = entries.map(|entry| entry.expect("an entry").path());
            found.extend(inside.filter(|file| is_jpeg(file)));
        } else {
            found.push(path.clone());
        }
    }
    found.sort();
    found
        .iter()
        .map(|path| std::fs::read(path).expect("the file can be read"))
        .collect()
}

fn is_jpeg(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|name| ["jpg", "jpeg"].contains(&name.to_lowercase().as_str()))
}

/// Gradients with noise, 4 sizes x 3 kinds of subsampling, 8 of each.
fn generated() -> Vec<Vec<u8>> {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
    let mut state = 1u32;
    let mut files = Vec::new();
    for (width, height) in [(224u16, 224u16), (500, 375), (640, 480), (1280, 720)] {
        for sampling in [
            SamplingFactor::R_4_4_4,
            SamplingFactor::R_4_2_2,
            SamplingFactor::R_4_2_0,
        ] {
            for shift in 0..8u32 {
                let mut pixels = Vec::new();
                for y in 0..u32::from(height) {
                    for x in 0..u32::from(width) {
                        for channel in 0..3 {
                            // A generator of Lehmer's: the same images on every machine.
                            state = (u64::from(state) * 48_271 % 0x7fff_ffff) as u32;
                            let smooth = (x + shift * 16 * channel + y * (channel + 1)) / 4;
                            pixels.push((smooth % 224 + state % 32) as u8);
                        }
                    }
                }
                let mut file = Vec::new();
                let mut encoder = Encoder::new(&mut file, 90);
                encoder.set_sampling_factor(sampling);
                encoder
                    .encode(&pixels, width, height, ColorType::Rgb)
                    .expect("it can be encoded");
                files.push(file);
            }
        }
    }
    files
}
