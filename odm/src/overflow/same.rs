//! Which elements are one to a set: as the server compares them, numbers by their value and whatever their width.

use std::collections::BTreeSet;

use bson::{Bson, doc};

use crate::{Result, stored::close};

/// The elements of a set.
#[derive(Debug, Default)]
pub(crate) struct ElementSet(BTreeSet<Vec<u8>>);

impl ElementSet {
    /// Those of some elements.
    pub(crate) fn of<'e>(elements: impl IntoIterator<Item = &'e Bson>) -> Result<Self> {
        let mut distinct = Self::default();
        for element in elements {
            distinct.insert(element)?;
        }
        Ok(distinct)
    }

    /// Adds one; tells whether it was not among them.
    pub(crate) fn insert(&mut self, element: &Bson) -> Result<bool> {
        Ok(self.0.insert(key(element)?))
    }

    pub(crate) fn has(&self, element: &Bson) -> Result<bool> {
        Ok(self.0.contains(&key(element)?))
    }

    /// Those of some elements that are not among them, in their order.
    pub(crate) fn missing(&self, elements: Vec<Bson>) -> Result<Vec<Bson>> {
        let mut missing = Vec::new();
        for element in elements {
            if !self.has(&element)? {
                missing.push(element);
            }
        }
        Ok(missing)
    }
}

/// The same bytes for what is the same.
fn key(element: &Bson) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    write(element, &mut key)?;
    Ok(key)
}

fn write(value: &Bson, key: &mut Vec<u8>) -> Result<()> {
    match value {
        Bson::Int32(number) => write_whole(i64::from(*number), key),
        Bson::Int64(number) => write_whole(*number, key),
        Bson::Double(number) => write_double(*number, key),
        Bson::Document(fields) => {
            key.push(b'{');
            for (name, value) in fields {
                key.push(b',');
                write_text(name, key);
                write(value, key)?;
            }
            key.push(b'}');
        }
        Bson::Array(elements) => {
            key.push(b'[');
            for element in elements {
                key.push(b',');
                write(element, key)?;
            }
            key.push(b']');
        }
        // A decimal is the same only as what is written alike: of one type as they are, elements are not mixed.
        other => {
            key.push(b'=');
            key.extend(close(&doc! { "": other.clone() })?.into_bytes());
        }
    }
    Ok(())
}

fn write_whole(number: i64, key: &mut Vec<u8>) {
    key.push(b'i');
    key.extend(number.to_be_bytes());
}

fn write_double(number: f64, key: &mut Vec<u8>) {
    // All of an `i64`, and the first number beyond them.
    let whole = -(2.0_f64.powi(63))..2.0_f64.powi(63);
    if number.is_nan() {
        key.push(b'n');
    } else if number.fract() == 0.0 && whole.contains(&number) {
        write_whole(number as i64, key);
    } else {
        key.push(b'd');
        key.extend(number.to_be_bytes());
    }
}

fn write_text(text: &str, key: &mut Vec<u8>) {
    key.extend(text.len().to_be_bytes());
    key.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn are_same(a: impl Into<Bson>, b: impl Into<Bson>) -> bool {
        ElementSet::of([&a.into()]).unwrap().has(&b.into()).unwrap()
    }

    #[test]
    fn numbers_are_the_same_by_their_value() {
        assert!(are_same(1_i32, 1_i64));
        assert!(are_same(1_i64, 1.0));
        assert!(are_same(0.0, -0.0));
        assert!(are_same(f64::NAN, -f64::NAN));
        assert!(are_same(i64::MIN, -(2.0_f64.powi(63))));
        assert!(!are_same(i64::MAX, 2.0_f64.powi(63)));
        assert!(!are_same(1_i64, 1.5));
        assert!(!are_same(1_i64, "1"));
        assert!(!are_same(1_i64, Bson::Null));
    }

    #[test]
    fn so_are_those_inside_of_others() {
        assert!(are_same(
            doc! { "a": [1_i32, { "b": 2_i64 }] },
            doc! { "a": [1.0, { "b": 2_i32 }] }
        ));
        assert!(!are_same(doc! { "a": 1, "b": 2 }, doc! { "b": 2, "a": 1 }));
        assert!(!are_same(doc! { "a": 1 }, doc! { "a": 1, "b": 2 }));
        assert!(!are_same(vec![Bson::Int64(1)], 1_i64));
        assert!(!are_same(Bson::Array(vec![]), doc! {}));
    }
}
