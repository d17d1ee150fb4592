//! WAV files to samples, many a call.

use crate::formats::wav::{parse, samples, Wav};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

type Decoded = (Vec<Py<PyArray2<f32>>>, Vec<i32>, Option<String>);

/// Decode files of 16-bit samples: each array is (samples, channels), and there is a rate for it.
#[pyfunction]
pub fn decode_wavs(
    py: Python<'_>,
    contents: Vec<PyBackedBytes>,
    channels: Option<usize>,
    count: Option<usize>,
    most: usize,
) -> PyResult<Decoded> {
    let (found, told) = py.detach(|| {
        let mut found = Vec::with_capacity(contents.len());
        for content in &contents {
            match decoded(content, channels, count, most) {
                Ok(audio) => found.push(audio),
                Err(message) => return (found, Some(message)),
            }
        }
        (found, None)
    });
    let mut arrays = Vec::with_capacity(found.len());
    let mut rates = Vec::with_capacity(found.len());
    for audio in found {
        let array =
            PyArray1::from_vec(py, audio.values).reshape([audio.samples, audio.channels])?;
        arrays.push(array.unbind());
        rates.push(audio.rate);
    }
    Ok((arrays, rates, told))
}

struct Audio {
    values: Vec<f32>,
    samples: usize,
    channels: usize,
    rate: i32,
}

fn decoded(
    content: &[u8],
    channels: Option<usize>,
    count: Option<usize>,
    most: usize,
) -> Result<Audio, String> {
    let wav: Wav = parse(content).map_err(|defect| defect.to_string())?;
    let count = count.unwrap_or(wav.data.len() / (2 * wav.channels));
    let channels = channels.unwrap_or(wav.channels);
    if count.saturating_mul(channels) > most {
        return Err(format!(
            "{count} samples of {channels} channels are more than {most} numbers"
        ));
    }
    let rate = i32::try_from(wav.rate).map_err(|_| format!("the rate is {}", wav.rate))?;
    Ok(Audio {
        values: samples(content, &wav, count, channels),
        samples: count,
        channels,
        rate,
    })
}
