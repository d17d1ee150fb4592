//! Images: limits, windows, and files of rare forms.

use _core::images::defect::Defect;
use _core::images::image::{Limits, Window};
use _core::images::jpeg::{self, Request};
use _core::images::{bmp, gif, png};
use std::path::Path;

const LIMITS: Limits = Limits {
    pixels: 1 << 20,
    bytes: 1 << 22,
    expansion: 2000,
};

fn seed(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/images");
    std::fs::read(folder.join(name)).unwrap()
}

fn decoded(name: &str, limits: Limits, window: Option<Window>) -> Result<Vec<u8>, Defect> {
    let request = Request {
        channels: 3,
        ratio: 1,
        smooth: true,
        recover: false,
        acceptable: 1.0,
        limits,
    };
    let made = jpeg::decode(&seed(name), &request, |_, _| Ok(window), |n| vec![0; n]);
    made.map(|image| image.data)
}

#[test]
fn images_beyond_the_limits() {
    let few = Limits {
        pixels: 100,
        ..LIMITS
    };
    let text = gif::decode(&seed("frames.gif"), false, &few)
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        text,
        "the image has 17 x 21 pixels of 3 channels, 3 times; limits.max_pixels allows 100, it \
         needs 1071"
    );
    let small = Limits {
        bytes: 99,
        ..LIMITS
    };
    assert_eq!(
        decoded("baseline", small, None).unwrap_err().to_string(),
        "the image has 17 x 21 pixels of 3 channels; limits.max_bytes allows 99, it needs 1071"
    );
    assert!(png::decode(&seed("colors.png"), 0, false, &few).is_err());
}

#[test]
fn windows_beyond_the_image() {
    let window = |left| Window {
        top: 1,
        left,
        height: 2,
        width: 3,
    };
    assert_eq!(
        decoded("baseline", LIMITS, Some(window(18))).unwrap().len(),
        18
    );
    assert_eq!(
        decoded("baseline", LIMITS, Some(window(19)))
            .unwrap_err()
            .to_string(),
        "the window of 2 x 3 pixels at (1, 19) does not lie in the image, which has 17 x 21"
    );
}

#[test]
fn bytes_that_are_no_image() {
    let text = bmp::decode(b"BN", 0, &LIMITS).unwrap_err().to_string();
    assert_eq!(text, "not a BMP: it does not begin with BM, at byte 0");
    let text = gif::decode(&seed("nothing.gif"), false, &LIMITS)
        .err()
        .unwrap()
        .to_string();
    assert_eq!(text, "the GIF has no frame with pixels, at byte 35");
    let text = gif::decode(&seed("speck.gif"), false, &LIMITS)
        .err()
        .unwrap()
        .to_string();
    assert!(text.starts_with("the GIF has a pixel of a color that is not in its palette"));
    let damaged = seed("part_of_a_color.png");
    let text = png::decode(&damaged, 0, false, &LIMITS).err().unwrap();
    assert!(text.to_string().starts_with(
        "the PNG cannot be decoded (a palette of 679 bytes, not of whole colors), at byte"
    ));
}

#[test]
fn sixteen_bits_become_any_number_of_channels() {
    let gray = |[r, g, b]: [u64; 3]| (9798 * r + 19234 * g + 3736 * b + (1 << 14)) >> 15;
    let pixels = |channels, wide| png::decode(&seed("wide.png"), channels, wide, &LIMITS);
    let png::Pixels::Words(colors) = pixels(0, true).unwrap() else {
        panic!("16 bits were asked for");
    };
    assert_eq!(colors.data, [1000, 2000, 3000, 65535, 0, 256]);
    let png::Pixels::Words(grays) = pixels(2, true).unwrap() else {
        panic!("16 bits were asked for");
    };
    let wanted = [gray([1000, 2000, 3000]), gray([65535, 0, 256])].map(|value| value as u16);
    assert_eq!(grays.data, [wanted[0], 65535, wanted[1], 65535]);
    let png::Pixels::Bytes(narrow) = pixels(4, false).unwrap() else {
        panic!("8 bits were asked for");
    };
    assert_eq!(narrow.data, [3, 7, 11, 255, 255, 0, 1, 255]);
}
