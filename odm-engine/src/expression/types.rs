//! Type operators and conversions.

mod convert;
mod convert_to;
mod is_number;
mod to_date;
mod to_number;
mod to_string;
mod r#type;

use super::categories::OperatorRegistry;

pub(super) use to_string::format_double;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$convert", convert::parse_convert),
    ("$isNumber", is_number::parse_is_number),
    ("$toBool", convert_to::parse_convert_to),
    ("$toDate", convert_to::parse_convert_to),
    ("$toDecimal", convert_to::parse_convert_to),
    ("$toDouble", convert_to::parse_convert_to),
    ("$toInt", convert_to::parse_convert_to),
    ("$toLong", convert_to::parse_convert_to),
    ("$toObjectId", convert_to::parse_convert_to),
    ("$toString", convert_to::parse_convert_to),
    ("$type", r#type::parse_type),
];
