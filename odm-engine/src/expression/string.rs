//! Strings.

mod concat;
mod index_of_bytes;
mod index_of_cp;
mod regex;
mod regex_find;
mod regex_find_all;
mod regex_match;
mod replace;
mod split;
mod str_len;
mod strcasecmp;
mod substr_bytes;
mod substr_cp;
mod text;
mod to_upper;
mod trim;

use super::categories::Registry;

pub(super) const OPERATORS: Registry = &[
    ("$concat", concat::parse),
    ("$indexOfBytes", index_of_bytes::parse),
    ("$indexOfCP", index_of_cp::parse),
    ("$ltrim", trim::parse_left),
    ("$regexFind", regex_find::parse),
    ("$regexFindAll", regex_find_all::parse),
    ("$regexMatch", regex_match::parse),
    ("$replaceAll", replace::parse_all),
    ("$replaceOne", replace::parse_one),
    ("$rtrim", trim::parse_right),
    ("$split", split::parse),
    ("$strLenBytes", str_len::parse_bytes),
    ("$strLenCP", str_len::parse_cp),
    ("$strcasecmp", strcasecmp::parse),
    ("$substr", substr_bytes::parse),
    ("$substrBytes", substr_bytes::parse),
    ("$substrCP", substr_cp::parse),
    ("$toLower", to_upper::parse_lower),
    ("$toUpper", to_upper::parse),
    ("$trim", trim::parse),
];
