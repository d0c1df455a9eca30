//! Types and conversions.

mod convert;
mod convert_to;
mod is_number;
mod to_date;
mod to_number;
mod to_string;
mod r#type;

use super::categories::Registry;

pub(super) use to_string::double;

pub(super) const OPERATORS: Registry = &[
    ("$convert", convert::parse),
    ("$isNumber", is_number::parse),
    ("$toBool", convert_to::parse),
    ("$toDate", convert_to::parse),
    ("$toDecimal", convert_to::parse),
    ("$toDouble", convert_to::parse),
    ("$toInt", convert_to::parse),
    ("$toLong", convert_to::parse),
    ("$toObjectId", convert_to::parse),
    ("$toString", convert_to::parse),
    ("$type", r#type::parse),
];
