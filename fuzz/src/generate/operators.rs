//! The operands and results of expression operators, so that most generated expressions are valid.

use Operands::{List, Named, One, Several};
use ValueKind::{
    Any, Array, Arrays, Boolean, Branches, Bytes, Date, Document, Format, Name, Number, Options,
    Order, Pairs, Pattern, Same, Small, Stamp, Text, TypeName, Unit, Variables, Weekday, Zone,
};

/// The kind of a value, or the required kind of a constant operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Any,
    Array,
    Boolean,
    Date,
    Document,
    Number,
    Text,
    /// The kind of the operator's result.
    Same,
    /// An integer that is small enough for a short loop.
    Small,
    Arrays,
    Branches,
    Bytes,
    Format,
    Name,
    Options,
    Order,
    Pairs,
    Pattern,
    Stamp,
    TypeName,
    Unit,
    Variables,
    Weekday,
    Zone,
}

/// The form of an operator's operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operands {
    /// Positional operands. Operands after the minimum number are optional.
    List(&'static [ValueKind], usize),
    /// Named operands. Operands after the minimum number are optional.
    Named(&'static [(&'static str, ValueKind)], usize),
    One(ValueKind),
    Several(ValueKind),
}

/// An operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    pub(crate) gives: ValueKind,
    pub(crate) operands: Operands,
    /// The variables that the operand `in` or `cond` can read.
    pub(crate) binds: &'static [&'static str],
}

const fn operator(name: &'static str, gives: ValueKind, operands: Operands) -> Signature {
    Signature {
        name,
        gives,
        operands,
        binds: &[],
    }
}

const fn binding(signature: Signature, binds: &'static [&'static str]) -> Signature {
    Signature { binds, ..signature }
}

const DATE: Operands = Named(&[("date", Date), ("timezone", Zone)], 1);
const ADDED: Operands = Named(
    &[
        ("startDate", Date),
        ("unit", Unit),
        ("amount", Small),
        ("timezone", Zone),
    ],
    3,
);
const NTH: Operands = Named(&[("input", Array), ("n", Small)], 2);
const MATCH: Operands = Named(
    &[("input", Text), ("regex", Pattern), ("options", Options)],
    2,
);
const REPLACE: Operands = Named(&[("input", Text), ("find", Text), ("replacement", Text)], 3);
const TRIM: Operands = Named(&[("input", Text), ("chars", Text)], 1);
const SEARCH: Operands = List(&[Text, Text, Small, Small], 2);
const TWO_ARRAYS: Operands = List(&[Array, Array], 2);
const TWO_NUMBERS: Operands = List(&[Number, Number], 2);
const COMPARED: Operands = List(&[Any, Any], 2);

/// The operators, sorted by name.
pub(crate) const OPERATORS: &[Signature] = &[
    operator("$abs", Number, One(Number)),
    operator("$acos", Number, One(Number)),
    operator("$acosh", Number, One(Number)),
    operator("$add", Number, Several(Number)),
    operator("$allElementsTrue", Boolean, List(&[Array], 1)),
    operator("$and", Boolean, Several(Any)),
    operator("$anyElementTrue", Boolean, List(&[Array], 1)),
    operator("$arrayElemAt", Same, List(&[Array, Small], 2)),
    operator("$arrayToObject", Document, One(Pairs)),
    operator("$asin", Number, One(Number)),
    operator("$asinh", Number, One(Number)),
    operator("$atan", Number, One(Number)),
    operator("$atan2", Number, TWO_NUMBERS),
    operator("$atanh", Number, One(Number)),
    operator("$avg", Number, Several(Number)),
    operator("$binarySize", Number, One(Bytes)),
    operator("$bsonSize", Number, One(Document)),
    operator("$ceil", Number, One(Number)),
    operator("$cmp", Number, COMPARED),
    operator("$concat", Text, Several(Text)),
    operator("$concatArrays", Array, Several(Array)),
    operator("$cond", Same, List(&[Any, Same, Same], 3)),
    operator("$const", Any, One(Any)),
    operator(
        "$convert",
        Same,
        Named(
            &[
                ("input", Any),
                ("to", TypeName),
                ("onError", Same),
                ("onNull", Same),
            ],
            2,
        ),
    ),
    operator("$cos", Number, One(Number)),
    operator("$cosh", Number, One(Number)),
    operator("$dateAdd", Date, ADDED),
    operator(
        "$dateDiff",
        Number,
        Named(
            &[
                ("startDate", Date),
                ("endDate", Date),
                ("unit", Unit),
                ("timezone", Zone),
                ("startOfWeek", Weekday),
            ],
            3,
        ),
    ),
    operator(
        "$dateFromParts",
        Date,
        Named(
            &[
                ("year", Small),
                ("month", Small),
                ("day", Number),
                ("hour", Number),
                ("minute", Small),
                ("second", Small),
                ("millisecond", Number),
                ("timezone", Zone),
            ],
            1,
        ),
    ),
    operator(
        "$dateFromString",
        Date,
        Named(
            &[
                ("dateString", Text),
                ("onError", Same),
                ("onNull", Same),
                ("format", Format),
                ("timezone", Zone),
            ],
            1,
        ),
    ),
    operator("$dateSubtract", Date, ADDED),
    operator(
        "$dateToParts",
        Document,
        Named(
            &[("date", Date), ("timezone", Zone), ("iso8601", Boolean)],
            1,
        ),
    ),
    operator(
        "$dateToString",
        Text,
        Named(
            &[
                ("date", Date),
                ("format", Format),
                ("timezone", Zone),
                ("onNull", Same),
            ],
            1,
        ),
    ),
    operator(
        "$dateTrunc",
        Date,
        Named(
            &[
                ("date", Date),
                ("unit", Unit),
                ("binSize", Small),
                ("timezone", Zone),
                ("startOfWeek", Weekday),
            ],
            2,
        ),
    ),
    operator("$dayOfMonth", Number, DATE),
    operator("$dayOfWeek", Number, DATE),
    operator("$dayOfYear", Number, DATE),
    operator("$degreesToRadians", Number, One(Number)),
    operator("$divide", Number, TWO_NUMBERS),
    operator("$eq", Boolean, COMPARED),
    operator("$exp", Number, One(Number)),
    binding(
        operator(
            "$filter",
            Array,
            Named(&[("input", Array), ("cond", Any), ("limit", Small)], 2),
        ),
        &["this"],
    ),
    operator("$first", Same, One(Array)),
    operator("$firstN", Array, NTH),
    operator("$floor", Number, One(Number)),
    operator(
        "$getField",
        Same,
        Named(&[("field", Name), ("input", Document)], 2),
    ),
    operator("$gt", Boolean, COMPARED),
    operator("$gte", Boolean, COMPARED),
    operator("$hour", Number, DATE),
    operator("$ifNull", Same, List(&[Same, Same], 2)),
    operator("$in", Boolean, List(&[Any, Array], 2)),
    operator(
        "$indexOfArray",
        Number,
        List(&[Array, Any, Small, Small], 2),
    ),
    operator("$indexOfBytes", Number, SEARCH),
    operator("$indexOfCP", Number, SEARCH),
    operator("$isArray", Boolean, List(&[Any], 1)),
    operator("$isNumber", Boolean, One(Any)),
    operator("$isoDayOfWeek", Number, DATE),
    operator("$isoWeek", Number, DATE),
    operator("$isoWeekYear", Number, DATE),
    operator("$last", Same, One(Array)),
    operator("$lastN", Array, NTH),
    binding(
        operator("$let", Same, Named(&[("vars", Variables), ("in", Same)], 2)),
        &["x", "y"],
    ),
    operator("$literal", Any, One(Any)),
    operator("$ln", Number, One(Number)),
    operator("$log", Number, TWO_NUMBERS),
    operator("$log10", Number, One(Number)),
    operator("$lt", Boolean, COMPARED),
    operator("$lte", Boolean, COMPARED),
    operator("$ltrim", Text, TRIM),
    binding(
        operator("$map", Array, Named(&[("input", Array), ("in", Any)], 2)),
        &["this"],
    ),
    operator("$max", Same, Several(Same)),
    operator("$maxN", Array, NTH),
    operator("$mergeObjects", Document, Several(Document)),
    operator("$millisecond", Number, DATE),
    operator("$min", Same, Several(Same)),
    operator("$minN", Array, NTH),
    operator("$minute", Number, DATE),
    operator("$mod", Number, TWO_NUMBERS),
    operator("$month", Number, DATE),
    operator("$multiply", Number, Several(Number)),
    operator("$ne", Boolean, COMPARED),
    operator("$not", Boolean, One(Any)),
    operator("$objectToArray", Array, One(Document)),
    operator("$or", Boolean, Several(Any)),
    operator("$pow", Number, TWO_NUMBERS),
    operator("$radiansToDegrees", Number, One(Number)),
    operator("$rand", Number, Named(&[], 0)),
    operator("$range", Array, List(&[Small, Small, Small], 2)),
    binding(
        operator(
            "$reduce",
            Same,
            Named(&[("input", Array), ("initialValue", Same), ("in", Same)], 3),
        ),
        &["this", "value"],
    ),
    operator("$regexFind", Document, MATCH),
    operator("$regexFindAll", Array, MATCH),
    operator("$regexMatch", Boolean, MATCH),
    operator("$replaceAll", Text, REPLACE),
    operator("$replaceOne", Text, REPLACE),
    operator("$reverseArray", Array, One(Array)),
    operator("$round", Number, List(&[Number, Small], 1)),
    operator("$rtrim", Text, TRIM),
    operator("$second", Number, DATE),
    operator("$setDifference", Array, TWO_ARRAYS),
    operator("$setEquals", Boolean, TWO_ARRAYS),
    operator(
        "$setField",
        Document,
        Named(&[("field", Name), ("input", Document), ("value", Any)], 3),
    ),
    operator("$setIntersection", Array, Several(Array)),
    operator("$setIsSubset", Boolean, TWO_ARRAYS),
    operator("$setUnion", Array, Several(Array)),
    operator("$sin", Number, One(Number)),
    operator("$sinh", Number, One(Number)),
    operator("$size", Number, One(Array)),
    operator("$slice", Array, List(&[Array, Small, Small], 2)),
    operator(
        "$sortArray",
        Array,
        Named(&[("input", Array), ("sortBy", Order)], 2),
    ),
    operator("$split", Array, List(&[Text, Text], 2)),
    operator("$sqrt", Number, One(Number)),
    operator("$stdDevPop", Number, Several(Number)),
    operator("$stdDevSamp", Number, Several(Number)),
    operator("$strLenBytes", Number, One(Text)),
    operator("$strLenCP", Number, One(Text)),
    operator("$strcasecmp", Number, List(&[Text, Text], 2)),
    operator("$substr", Text, List(&[Text, Small, Small], 3)),
    operator("$substrBytes", Text, List(&[Text, Small, Small], 3)),
    operator("$substrCP", Text, List(&[Text, Small, Small], 3)),
    operator("$subtract", Number, TWO_NUMBERS),
    operator("$sum", Number, Several(Number)),
    operator(
        "$switch",
        Same,
        Named(&[("branches", Branches), ("default", Same)], 2),
    ),
    operator("$tan", Number, One(Number)),
    operator("$tanh", Number, One(Number)),
    operator("$toBool", Boolean, One(Any)),
    operator("$toDate", Date, One(Number)),
    operator("$toDecimal", Number, One(Number)),
    operator("$toDouble", Number, One(Number)),
    operator("$toHashedIndexKey", Number, One(Any)),
    operator("$toInt", Number, One(Small)),
    operator("$toLong", Number, One(Number)),
    operator("$toLower", Text, One(Text)),
    operator("$toObjectId", Any, One(Text)),
    operator("$toString", Text, One(Number)),
    operator("$toUpper", Text, One(Text)),
    operator("$trim", Text, TRIM),
    operator("$trunc", Number, List(&[Number, Small], 1)),
    operator("$tsIncrement", Number, One(Stamp)),
    operator("$tsSecond", Number, One(Stamp)),
    operator("$type", Text, One(Any)),
    operator(
        "$unsetField",
        Document,
        Named(&[("field", Name), ("input", Document)], 2),
    ),
    operator("$week", Number, DATE),
    operator("$year", Number, DATE),
    operator(
        "$zip",
        Array,
        Named(&[("inputs", Arrays), ("useLongestLength", Boolean)], 1),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::OPERATORS;
    use crate::generate::pipeline::{ACCUMULATORS, STAGES};

    /// Returns the names of a registry in the engine sources, from lines like `("$abs", abs::parse),`.
    fn names(file: &Path) -> BTreeSet<String> {
        // A long entry has several lines.
        let text = fs::read_to_string(file).unwrap().replace("(\n", "(");
        let entries = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix('('));
        let names = entries.filter_map(|entry| entry.trim_start().strip_prefix('"'));
        names
            .filter_map(|entry| Some(entry.split_once("\",")?.0.to_owned()))
            .collect()
    }

    fn set(names: impl Iterator<Item = &'static str>) -> BTreeSet<String> {
        names.map(ToOwned::to_owned).collect()
    }

    #[test]
    fn all_engine_operators_are_generated() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../odm-engine/src");
        let mut operators = BTreeSet::new();
        for file in fs::read_dir(source.join("expression")).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                operators.append(&mut names(&file));
            }
        }
        // The engine refuses both operators for all operands.
        operators.retain(|name| name != "$function" && name != "$meta");
        assert_eq!(set(OPERATORS.iter().map(|known| known.name)), operators);
        let stages = names(&source.join("pipeline/stages.rs"));
        assert_eq!(set(STAGES.iter().copied()), stages);
        let accumulators = names(&source.join("accumulator.rs"));
        assert_eq!(set(ACCUMULATORS.iter().copied()), accumulators);
    }
}
