//! How often parts of a pattern are repeated, and how often they may be by RE2's rules.

/// Repetitions within one another multiply; the product may be this at most.
const MOST: u64 = 1000;
/// Larger numbers are no numbers: the brace stands for itself.
const TOO_LARGE: u64 = 100_000_000;

/// A repetition in a pattern: `*`, `+`, `?`, `{2}`, `{2,}` or `{2,3}`, greedy or not.
pub struct Repetition<'a> {
    /// As it is written.
    pub text: &'a str,
    least: u64,
    most: Option<u64>,
}

impl<'a> Repetition<'a> {
    /// The one that the text begins with.
    pub fn at(text: &'a str) -> Option<Self> {
        let (length, least, most) = match text.as_bytes().first()? {
            b'*' => (1, 0, None),
            b'+' => (1, 1, None),
            b'?' => (1, 0, Some(1)),
            b'{' => {
                let (inner, _) = text[1..].split_once('}')?;
                let (least, most) = match inner.split_once(',') {
                    None => (number(inner)?, Some(number(inner)?)),
                    Some((least, "")) => (number(least)?, None),
                    Some((least, most)) => (number(least)?, Some(number(most)?)),
                };
                (inner.len() + 2, least, most)
            }
            _ => return None,
        };
        let lazy = text[length..].starts_with('?');
        Some(Self {
            text: &text[..length + usize::from(lazy)],
            least,
            most,
        })
    }

    fn is_counted(&self) -> bool {
        self.text.starts_with('{')
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text.len() == 1 || !text.starts_with('0'));
    let number = text.parse().ok().filter(|_| plain);
    number.filter(|&number| number < TOO_LARGE)
}

/// What was read of a pattern.
#[derive(Default)]
pub struct Repetitions {
    /// For each group that is open the highest product before the last item.
    groups: Vec<u64>,
    /// That of the last item.
    item: u64,
    /// The repetition that was read last, with nothing after it.
    operator: Option<String>,
}

impl Repetitions {
    /// A character, a class or an assertion was read.
    pub fn item(&mut self) {
        if let Some(before) = self.groups.last_mut() {
            *before = self.item.max(*before);
        }
        (self.item, self.operator) = (1, None);
    }

    /// A group begins.
    pub fn open(&mut self) {
        self.item();
        self.groups.push(1);
    }

    /// A group ends.
    pub fn close(&mut self) {
        self.item = self.groups.pop().unwrap_or(1).max(self.item);
        self.operator = None;
    }

    /// The last item is repeated.
    ///
    /// # Errors
    /// It may not be.
    pub fn repeat(&mut self, repetition: &Repetition) -> Result<(), String> {
        let Repetition { text, least, most } = *repetition;
        if let Some(before) = &self.operator {
            return Err(format!("bad repetition operator: {before}{text}"));
        }
        self.operator = Some(text.to_owned());
        if !repetition.is_counted() {
            return Ok(());
        }
        let times = most.unwrap_or(least);
        // A thing that is repeated once at most counts as often as what is in it.
        let product = self.item * times.max(1);
        let too_often = product > MOST && times > 1;
        if times < least || least > MOST || times > MOST || too_often {
            return Err(format!(
                "invalid repetition size: {text}; a part may be repeated {MOST} times at most, \
                 together with what repeats it"
            ));
        }
        self.item = product;
        Ok(())
    }
}
