//! String operators.

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

use super::categories::OperatorRegistry;

pub(super) const OPERATORS: OperatorRegistry = &[
    ("$concat", concat::parse_concat),
    ("$indexOfBytes", index_of_bytes::parse_index_of_bytes),
    ("$indexOfCP", index_of_cp::parse_index_of_cp),
    ("$ltrim", trim::parse_left),
    ("$regexFind", regex_find::parse_regex_find),
    ("$regexFindAll", regex_find_all::parse_regex_find_all),
    ("$regexMatch", regex_match::parse_regex_match),
    ("$replaceAll", replace::parse_replace_all),
    ("$replaceOne", replace::parse_replace_one),
    ("$rtrim", trim::parse_right),
    ("$split", split::parse_split),
    ("$strLenBytes", str_len::parse_bytes),
    ("$strLenCP", str_len::parse_cp),
    ("$strcasecmp", strcasecmp::parse_strcasecmp),
    ("$substr", substr_bytes::parse_substr_bytes),
    ("$substrBytes", substr_bytes::parse_substr_bytes),
    ("$substrCP", substr_cp::parse_substr_cp),
    ("$toLower", to_upper::parse_to_lower),
    ("$toUpper", to_upper::parse_to_upper),
    ("$trim", trim::parse_trim),
];
