//! Where the copies of a model are: the fields that are taken through one reference.

use bson::{Bson, Document, doc};

use super::source::Source;
use crate::{
    maintain::{
        overflow,
        stored::{get, is_position},
        tally,
    },
    schema::{CopiedField, Copies, Follows, Model, OverflowField, SharedScope},
};

/// The copies through one reference, wherever the struct that has both stands in the document.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The way to that struct.
    pub(super) steps: Vec<Step>,
    /// The reference, as it is stored there.
    pub(super) reference: &'static str,
    pub(super) is_optional: bool,
    pub(super) model: fn() -> &'static Model,
    /// Where both models have a scope: the fields that must be equal for the reference to lead to a source.
    scope: Option<SharedScope>,
    pub(super) fields: Vec<Taken>,
}

/// A field on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) stored: &'static str,
    pub(super) is_array: bool,
}

/// A field that is taken from the source.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) stored: &'static str,
    /// What of the source it is, dotted.
    pub(super) from: String,
    pub(super) follows: Follows,
    /// Whether it becomes null when the source is deleted.
    pub(super) clears: bool,
    /// Whether it is remembered of which document it was taken, and when.
    pub(super) has_origin: bool,
}

impl Taken {
    pub(super) fn is_following(&self) -> bool {
        self.follows != Follows::Never
    }

    /// Where the struct remembers of what it was taken.
    pub(super) fn origin(&self) -> String {
        format!("{}.{}", super::TAKEN, self.stored)
    }
}

/// The groups of a model.
pub(crate) fn groups(model: &Model) -> Vec<Group> {
    let mut found = Vec::new();
    collect(model, model.copies, &mut Vec::new(), &mut found);
    found
}

/// The groups of a model, and apart from them those in its arrays that overflow.
pub(super) fn groups_apart(model: &Model) -> (Vec<Group>, Vec<Group>) {
    let overflows = |group: &Group| model.overflows.iter().any(|field| group.is_in(field));
    let (apart, own) = groups(model).into_iter().partition(overflows);
    (own, apart)
}

/// The paths at which a save writes nothing: what the framework has taken, and what is said once.
pub(super) fn fixed(model: &Model) -> Vec<String> {
    fn frozen(copies: &Copies, before: &str, found: &mut Vec<String>) {
        found.extend(copies.frozen.iter().map(|field| format!("{before}{field}")));
        for inside in copies.inside {
            frozen(inside.copies, &format!("{before}{}.", inside.stored), found);
        }
    }
    let groups = groups(model);
    let taken = groups.iter().flat_map(|group| {
        let fields = group.fields.iter();
        fields.map(|taken| group.path(taken.stored))
    });
    let mut found = taken.collect();
    frozen(model.copies, "", &mut found);
    found.extend(tally::fixed(model));
    found.extend(overflow::fixed(model).map(ToOwned::to_owned));
    found
}

/// The groups that copy from a model, with the models that have them.
pub(crate) fn dependents(
    models: &[&'static Model],
    source: &Model,
) -> impl Iterator<Item = (&'static Model, Group)> {
    let all = models.iter().filter(|model| model.copies.is_any());
    all.flat_map(|model| groups(model).into_iter().map(|group| (*model, group)))
        .filter(|(_, group)| group.is_following())
        .filter(|(_, group)| (group.model)().collection == source.collection)
}

fn collect(model: &Model, copies: &Copies, steps: &mut Vec<Step>, found: &mut Vec<Group>) {
    for field in copies.own {
        let taken = Taken {
            stored: field.stored,
            from: (field.from)().to_string(),
            follows: field.follows,
            clears: field.clears,
            has_origin: field.has_origin,
        };
        let is_of =
            |group: &&mut Group| group.steps == *steps && group.reference == field.reference;
        match found.iter_mut().find(is_of) {
            Some(group) => group.fields.push(taken),
            None => found.push(Group::of(model, field, steps, taken)),
        }
    }
    for inside in copies.inside {
        steps.push(Step {
            stored: inside.stored,
            is_array: inside.is_array,
        });
        collect(model, inside.copies, steps, found);
        steps.pop();
    }
}

impl Group {
    fn of(model: &Model, field: &CopiedField, steps: &[Step], taken: Taken) -> Self {
        Self {
            steps: steps.to_vec(),
            reference: field.reference,
            is_optional: field.is_optional,
            model: field.model,
            scope: SharedScope::between(model, (field.model)()),
            fields: vec![taken],
        }
    }

    /// The scope that the source of a dependent must have; none unless both models have a scope.
    pub(super) fn scope_of_dependent(&self, dependent: &Document) -> Option<Bson> {
        let scope = self.scope?;
        Some(
            get(dependent, scope.referrer)
                .cloned()
                .unwrap_or(Bson::Null),
        )
    }

    /// The scope that the dependents of a source must have; none unless both models have a scope.
    pub(super) fn scope_of_source(&self, source: &Source) -> Option<Bson> {
        self.scope.map(|scope| source.value(scope.target))
    }

    /// The condition that a dependent is of a scope.
    pub(super) fn in_scope(&self, value: Option<&Bson>) -> Document {
        match (self.scope, value) {
            (Some(scope), Some(value)) => doc! { scope.referrer: { "$eq": value.clone() } },
            _ => Document::new(),
        }
    }

    /// Whether some of it follows.
    pub(super) fn is_following(&self) -> bool {
        self.fields.iter().any(Taken::is_following)
    }

    /// The fields that follow.
    pub(super) fn following(&self) -> impl Iterator<Item = &Taken> {
        self.fields.iter().filter(|taken| taken.is_following())
    }

    /// Whether an array that overflows has it in its elements.
    pub(super) fn is_in(&self, field: &OverflowField) -> bool {
        let first = self.steps.first();
        first.is_some_and(|first| first.stored == field.stored)
    }

    /// Whether some of it becomes null when the source is deleted.
    pub(super) fn is_clearing(&self) -> bool {
        self.fields.iter().any(|taken| taken.clears)
    }

    /// The fields that were taken once.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = &Taken> {
        self.fields.iter().filter(|taken| !taken.is_following())
    }

    /// The path of a field beside the reference, through arrays as a filter goes through them.
    pub(super) fn path(&self, field: &str) -> String {
        let steps = self.steps.iter().map(|step| step.stored);
        steps.chain([field]).collect::<Vec<_>>().join(".")
    }

    pub(super) fn reference_path(&self) -> String {
        self.path(self.reference)
    }

    /// Where the struct remembers of which revision its copies are.
    pub(super) fn from(&self) -> String {
        format!("{}.{}", super::FROM, self.reference)
    }

    /// What the reference in a struct leads to; none if it is null.
    pub(super) fn reference_in<'d>(&self, inside: &'d Document) -> Option<&'d Bson> {
        inside.get(self.reference).filter(|id| **id != Bson::Null)
    }

    /// Of which revision the copies in a struct are.
    pub(super) fn revision_in(&self, inside: &Document) -> Option<i64> {
        let own = inside.get_document("_odm").ok()?;
        own.get_document("from").ok()?.get_i64(self.reference).ok()
    }

    /// Whether the struct is inside of an array.
    pub(super) fn is_in_array(&self) -> bool {
        self.steps.iter().any(|step| step.is_array)
    }

    /// What is asked of one of the structs, as a condition on the document.
    pub(super) fn of_structs(&self, condition: Document) -> Document {
        behind(&self.steps, condition)
    }

    /// The structs that meet a condition, as an update names them: by what they are, never by their position.
    pub(super) fn elements(&self, condition: &Document) -> Elements {
        let mut elements = Elements {
            before: String::new(),
            filters: Vec::new(),
        };
        for (position, step) in self.steps.iter().enumerate() {
            elements.before.push_str(step.stored);
            elements.before.push('.');
            if step.is_array {
                // A letter first, as the server asks for.
                let name = format!("e{position}");
                let rest = self.steps.get(position + 1..).unwrap_or_default();
                // It also says that what is behind it is there.
                let asked = behind(rest, condition.clone());
                elements.before.push_str(&format!("$[{name}]."));
                elements.filters.push(below(&name, asked));
            }
        }
        elements
    }

    /// The structs in a document, each with the path before its fields.
    pub(super) fn structs<'d>(&self, document: &'d Document) -> Vec<(String, &'d Document)> {
        let mut found = Vec::new();
        self.look(0, document, "", &mut found);
        found
    }

    /// The same of a value that stands where `step` leads on from.
    pub(super) fn structs_in<'d>(
        &self,
        step: usize,
        value: &'d Bson,
    ) -> Vec<(String, &'d Document)> {
        let mut found = Vec::new();
        self.look_in(step, value, "", &mut found);
        found
    }

    fn look<'d>(
        &self,
        step: usize,
        inside: &'d Document,
        path: &str,
        found: &mut Vec<(String, &'d Document)>,
    ) {
        match self.steps.get(step) {
            None => found.push((path.to_owned(), inside)),
            Some(next) => {
                if let Some(value) = inside.get(next.stored) {
                    self.look_in(step + 1, value, &format!("{path}{}.", next.stored), found);
                }
            }
        }
    }

    fn look_in<'d>(
        &self,
        step: usize,
        value: &'d Bson,
        path: &str,
        found: &mut Vec<(String, &'d Document)>,
    ) {
        match value {
            Bson::Document(inside) => self.look(step, inside, path, found),
            Bson::Array(values) => {
                for (position, value) in values.iter().enumerate() {
                    self.look_in(step, value, &format!("{path}{position}."), found);
                }
            }
            _ => {}
        }
    }

    /// Changes each struct of a document.
    pub(super) fn each<E>(
        &self,
        document: &mut Document,
        change: &mut impl FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_struct(0, document, change)
    }

    fn each_struct<E>(
        &self,
        step: usize,
        value: &mut Document,
        visit: &mut impl FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.steps.get(step) {
            None => visit(value),
            Some(next) => match value.get_mut(next.stored) {
                Some(value) => self.each_in(step + 1, value, visit),
                None => Ok(()),
            },
        }
    }

    /// The same of a value that stands where `step` leads on from.
    pub(super) fn each_in<E>(
        &self,
        step: usize,
        value: &mut Bson,
        visit: &mut impl FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        match value {
            Bson::Document(value) => self.each_struct(step, value, visit),
            Bson::Array(values) => values
                .iter_mut()
                .try_for_each(|value| self.each_in(step, value, visit)),
            _ => Ok(()),
        }
    }

    /// What a place that an update writes has to do with the group.
    pub(super) fn meets(&self, path: &str) -> Meets {
        let mut parts = path.split('.').peekable();
        let mut walked = Vec::new();
        for (position, step) in self.steps.iter().enumerate() {
            match parts.next() {
                None => return Meets::Around(position),
                Some(part) if part == step.stored => walked.push(part),
                Some(_) => return Meets::Nothing,
            }
            if step.is_array
                && let Some(part) = parts.next_if(|part| is_position(part))
            {
                walked.push(part);
            }
        }
        match (parts.next(), parts.next()) {
            (None, _) => Meets::Around(self.steps.len()),
            (Some(part), None) if part == self.reference => {
                walked.push("");
                Meets::Reference(walked.join("."))
            }
            _ => Meets::Nothing,
        }
    }
}

/// Structs as an update names them.
pub(super) struct Elements {
    /// What stands before their fields.
    pub(super) before: String,
    /// The conditions on the elements of the arrays that they are in.
    pub(super) filters: Vec<Document>,
}

/// What is asked of one of the structs to which steps lead.
fn behind(steps: &[Step], mut condition: Document) -> Document {
    for step in steps.iter().rev() {
        condition = match step.is_array {
            true => doc! { step.stored: { "$elemMatch": condition } },
            false => below(step.stored, condition),
        };
    }
    condition
}

/// A condition on what is inside of a field.
fn below(field: &str, condition: Document) -> Document {
    let fields = condition.into_iter();
    fields
        .map(|(path, asked)| (format!("{field}.{path}"), asked))
        .collect()
}

/// What a place has to do with a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meets {
    Nothing,
    /// The structs are inside of it: so many steps lead to it.
    Around(usize),
    /// It is the reference; what stands before it and its siblings.
    Reference(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::InEmbedded;

    const MODEL: Model = Model {
        copies: &Copies {
            own: &[CopiedField {
                field: "ip",
                stored: "ip",
                reference: "host",
                is_optional: false,
                collection: "hosts",
                model: || &Model::UNKNOWN,
                from: || crate::field::Path::ROOT.then("ipaddr"),
                first: "ipaddr",
                follows: Follows::Bounded,
                clears: false,
                has_origin: false,
            }],
            frozen: &[],
            inside: &[InEmbedded {
                field: "lines",
                stored: "lines",
                is_array: true,
                copies: &Copies {
                    own: &[CopiedField {
                        field: "name",
                        stored: "name",
                        reference: "product",
                        is_optional: false,
                        collection: "products",
                        model: || &Model::UNKNOWN,
                        from: || crate::field::Path::ROOT.then("name"),
                        first: "name",
                        follows: Follows::Bounded,
                        clears: false,
                        has_origin: false,
                    }],
                    ..Copies::NONE
                },
            }],
            is_lost: false,
        },
        ..Model::UNKNOWN
    };

    #[test]
    fn a_path_says_what_it_has_to_do_with_copies() {
        let groups = groups(&MODEL);
        let [own, lines] = groups.as_slice() else {
            panic!("two places, got {groups:?}");
        };
        let reference = |before: &str| Meets::Reference(before.to_owned());
        assert_eq!(own.meets("host"), reference(""));
        assert_eq!(own.meets("lines.0.product"), Meets::Nothing);
        assert_eq!(lines.meets("lines"), Meets::Around(1));
        assert_eq!(lines.meets("lines.3"), Meets::Around(1));
        assert_eq!(
            lines.meets("lines.$[e0].product"),
            reference("lines.$[e0].")
        );
        assert_eq!(lines.meets("lines.0.quantity"), Meets::Nothing);
        assert_eq!(lines.meets("host"), Meets::Nothing);
        assert_eq!(lines.reference_path(), "lines.product");
    }
}
