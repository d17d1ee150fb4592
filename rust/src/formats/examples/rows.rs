//! Record after record to columns.

use super::column::Column;
use super::decode::append;
use super::defect::{Defect, Failure, Found, Malformed};
use super::locate::Locator;
use super::parse::{FeatureMap, Targets};
use super::quick;
use super::schema::{Feature, FeatureShape};
use super::target::Target;
use super::wire::{Content, Cursor};

/// Parses records in order.
pub struct Rows<'a, 's, 'o> {
    maps: Vec<(u64, Locator<'a, 's>)>,
    columns: Vec<Column<'a>>,
    targets: Targets<'o>,
    count: usize,
    /// Whether the record before had just the entries that are known.
    is_as_known: bool,
}

/// Which feature was wrong, and which frame of it, once it is known.
struct Wrong {
    feature: Option<usize>,
    frame: Option<usize>,
    found: Found,
}

impl From<Malformed> for Wrong {
    fn from(malformed: Malformed) -> Self {
        Self {
            feature: None,
            frame: None,
            found: malformed.into(),
        }
    }
}

impl<'a, 's: 'a, 'o> Rows<'a, 's, 'o> {
    /// Columns for `records` records, or targets, one for each feature; None if columns do not fit
    /// in memory.
    pub fn new(maps: &'s [FeatureMap], records: usize, targets: Targets<'o>) -> Option<Self> {
        let features = maps.iter().flat_map(|map| map.schema.features());
        let columns = features.zip(&targets).map(|(feature, target)| {
            // Most records are written to targets with no way through a column.
            let held = if target.is_some() { 0 } else { records };
            Column::new(feature, records, held)
        });
        Some(Self {
            columns: columns.collect::<Option<_>>()?,
            maps: maps
                .iter()
                .map(|map| (map.field, Locator::new(&map.schema)))
                .collect(),
            targets,
            count: 0,
            is_as_known: false,
        })
    }

    /// Appends a record to the columns, or leaves them as they are.
    pub fn add(&mut self, record: &'a [u8]) -> Result<(), Failure> {
        if self.is_as_known {
            if self.quickly(record).is_some() {
                self.count += 1;
                return Ok(());
            }
            self.take_back();
        }
        let result = self.fields(record).and_then(|()| self.values());
        if let Err(wrong) = result {
            self.take_back();
            return Err(Failure {
                row: self.count,
                feature: wrong.feature,
                frame: wrong.frame,
                offset: wrong.found.offset,
                defect: wrong.found.defect,
            });
        }
        self.is_as_known = match self.maps.as_slice() {
            [(_, locator)] => locator.is_as_known() && !locator.schema().shares_keys(),
            _ => false,
        };
        self.count += 1;
        Ok(())
    }

    /// Appends a record that has the known entries and nothing else; None if it is another.
    fn quickly(&mut self, record: &'a [u8]) -> Option<()> {
        let [(field, locator)] = self.maps.as_slice() else {
            return None;
        };
        let mut row = Row {
            features: locator.schema().features(),
            columns: &mut self.columns,
            targets: &mut self.targets,
            number: self.count,
        };
        quick::entries(record, *field, locator.known(), &mut row)?;
        for position in locator.absent() {
            row.single(position, None).then_some(())?;
        }
        Some(())
    }

    pub fn columns(self) -> Vec<Column<'a>> {
        self.columns
    }

    fn fields(&mut self, record: &'a [u8]) -> Result<(), Wrong> {
        for (_, locator) in &mut self.maps {
            locator.start();
        }
        let mut message = Cursor::new(record);
        while let Some((number, content)) = message.field()? {
            let Content::Delimited(map) = content else {
                continue;
            };
            for (field, locator) in &mut self.maps {
                if *field == number {
                    locator.note(map)?;
                }
            }
        }
        Ok(())
    }

    fn values(&mut self) -> Result<(), Wrong> {
        let mut first = 0;
        for (_, locator) in &self.maps {
            let features = locator.schema().features();
            let range = first..first + features.len();
            let columns = self.columns[range.clone()].iter_mut();
            let outputs = columns.zip(&mut self.targets[range]);
            for (position, (feature, (column, target))) in features.iter().zip(outputs).enumerate()
            {
                let mut frame = None;
                let message = locator.of(position);
                value(feature, message, column, &mut frame).map_err(|found| Wrong {
                    feature: Some(first + position),
                    frame,
                    found,
                })?;
                moved(column, target, self.count);
            }
            first += features.len();
        }
        Ok(())
    }

    fn take_back(&mut self) {
        let features = self.maps.iter().flat_map(|(_, l)| l.schema().features());
        let outputs = self.columns.iter_mut().zip(&self.targets);
        for (feature, (column, target)) in features.zip(outputs) {
            let count = if target.is_some() { 0 } else { self.count };
            column.truncate(count, &feature.shape);
        }
    }
}

/// Where the values of one record go.
struct Row<'r, 'a, 'o> {
    features: &'a [Feature],
    columns: &'r mut [Column<'a>],
    targets: &'r mut [Option<Target<'o>>],
    number: usize,
}

impl<'a> Row<'_, 'a, '_> {
    #[inline(always)]
    fn single(&mut self, position: usize, message: Option<Cursor<'a>>) -> bool {
        let column = &mut self.columns[position];
        let added = single(&self.features[position], message, column).is_ok();
        if added {
            moved(column, &mut self.targets[position], self.number);
        }
        added
    }
}

impl<'a> quick::Take<'a> for Row<'_, 'a, '_> {
    #[inline(always)]
    fn message(&mut self, position: usize, message: &'a [u8]) -> bool {
        let target = self.targets[position].as_mut();
        target.is_some_and(|target| quick::set(message, self.number, target))
            || self.single(position, Some(Cursor::new(message)))
    }

    #[inline(always)]
    fn one(&mut self, position: usize, value: quick::One) -> bool {
        let target = self.targets[position].as_mut();
        target.is_some_and(|target| quick::set_one(value, self.number, target))
    }
}

/// Moves the values of a record, which are all that the column has, to the target if there is one.
fn moved(column: &mut Column, target: &mut Option<Target>, row: usize) {
    if let Some(target) = target {
        target.put(row, &column.values);
        column.values.truncate(0);
    }
}

#[inline(always)]
fn value<'a>(
    feature: &'a Feature,
    message: Option<Cursor<'a>>,
    column: &mut Column<'a>,
    frame: &mut Option<usize>,
) -> Result<(), Found> {
    let FeatureShape::Frames { count, required } = feature.shape else {
        return single(feature, message, column);
    };
    match message {
        Some(list) => frames(list, count, column, frame)?,
        None if required => return Err(missing(Defect::MissingList)),
        None => {}
    }
    let end = match count {
        Some(_) => column.rows.last().unwrap_or(&0) + frame.map_or(0, |last| last as i64 + 1),
        None => column.frames.len() as i64 - 1,
    };
    column.rows.push(end);
    Ok(())
}

#[inline(always)]
fn single<'a>(
    feature: &'a Feature,
    message: Option<Cursor<'a>>,
    column: &mut Column<'a>,
) -> Result<(), Found> {
    let count = match message {
        Some(message) => append(message, &mut column.values)?,
        None => None,
    };
    let wrong = |defect| Found {
        offset: message.map(|message| message.at()),
        defect,
    };
    match &feature.shape {
        FeatureShape::Fixed { count: wanted, .. } if count == Some(*wanted) => Ok(()),
        FeatureShape::Fixed {
            count: wanted,
            default,
        } => match (count, default) {
            (Some(found), _) => Err(wrong(Defect::Count {
                found,
                wanted: *wanted,
            })),
            (None, Some(default)) if column.values.append_default(default) => Ok(()),
            (None, _) => Err(missing(Defect::Missing)),
        },
        FeatureShape::Varying { of } => {
            let found = count.unwrap_or(0);
            let items = found.checked_div(*of).unwrap_or(0);
            if items * of != found {
                return Err(wrong(Defect::Multiple { found, of: *of }));
            }
            let end = column.rows.last().unwrap_or(&0) + items as i64;
            column.rows.push(end);
            Ok(())
        }
        FeatureShape::Frames { .. } => unreachable!("frames are lists of features"),
    }
}

/// Appends the features of a list; `frame` is the one in hand, in the end the last.
fn frames<'a>(
    mut list: Cursor<'a>,
    wanted: Option<usize>,
    column: &mut Column<'a>,
    frame: &mut Option<usize>,
) -> Result<(), Found> {
    while let Some(field) = list.field()? {
        let (1, Content::Delimited(feature)) = field else {
            continue;
        };
        *frame = Some(frame.map_or(0, |last| last + 1));
        let count = append(feature, &mut column.values)?;
        let wrong = |defect| Found {
            offset: Some(feature.at()),
            defect,
        };
        match (count, wanted) {
            (_, None) => column.frames.push(column.values.len() as i64),
            (None, Some(_)) => {
                let wanted = column.values.kind();
                return Err(wrong(Defect::Kind {
                    found: None,
                    wanted,
                }));
            }
            (Some(found), Some(wanted)) if found != wanted => {
                return Err(wrong(Defect::Count { found, wanted }));
            }
            _ => {}
        }
    }
    Ok(())
}

fn missing(defect: Defect) -> Found {
    Found {
        offset: None,
        defect,
    }
}
