//! The derives of the crate `odm`, which re-exports them: import the derives from `odm`.
//!
//! Each derive parses the input into a model, checks the model, and expands the model to code. All errors of an input are
//! reported at once, each at the token that caused the error.

mod attr;
mod ctxt;
mod expand;
mod fallback;
mod model;
#[cfg(test)]
mod readable;
mod rename;
mod self_type;
mod variant;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct or an enum the model of a collection's documents. The trait of the same name has an example of every attribute.
///
/// The struct has named fields and derives serde's `Serialize` and `Deserialize`. The field that serde stores as `_id` is the id.
/// Type parameters are supported (`struct Batch<T: Embedded>`, with `#[serde(bound = "")]`), lifetimes are not.
///
/// # On the struct: `#[document(…)]`
///
/// | setting | meaning |
/// |---|---|
/// | `collection = "parts"` | the collection of the documents; there is no default |
/// | `index(host, -time; unique)` | an index over these fields, in this order, `-` for descending; through embedded structs by `outer.inner`; options follow the semicolon |
/// | `version`, `version = field` | the framework counts the writes of a document in this `i64`; saving an outdated document is a conflict |
/// | `timestamps`, `timestamps(created = field, updated = field)` | the framework stores the times of the insert and of the last write; the default fields are `created_at` and `updated_at` |
/// | `variant_of = Shape` | the documents are one variant of an enum; replaces `collection` |
/// | `soft_delete`, `soft_delete = field` | a delete sets a date in this `Option<DateTime>`, by default `deleted_at`; queries skip the document unless they ask for deleted documents: [`SoftDelete`](../odm/trait.SoftDelete.html) |
/// | `soft_delete(cascade)`, `soft_delete(cascade, field = field)` | a soft delete and a restore also reach the documents that refer to the document by `on_delete = cascade`, if their model has a soft delete |
/// | `scope = tenant` | the field with the scope of a document; only sessions of that scope reach the document: [`Session::scope`](../odm/struct.Session.html#method.scope) |
/// | `id = auto` | each insert generates the `_id`, an `ObjectId` or a `Uuid`: the trait `AutoId` has an example |
/// | `id = "{user}/payments/{#number:06}"` | the `_id` is composed of fields: see below |
/// | `shard_key(customer, id)`, `shard_key(hashed(customer))` | the shard key of the collection on a sharded cluster: see below |
/// | `schema_version = 2`, `upgrade = function` | documents of older versions are upgraded when they are read or written; a write then costs an additional indexed lookup: [`Session::upgrade`](../odm/struct.Session.html#method.upgrade) |
/// | `validate` | every typed write checks the rules of the crate `garde` on the fields: see below |
/// | `deny_unknown_fields` | an unknown field in the input of the insert struct, such as a managed field or a misspelt field, is an error |
/// | `insert_derive(JsonSchema)` | further derives of the insert struct, such as `schemars::JsonSchema`, `utoipa::ToSchema` and `garde::Validate`, with the attributes of these derives on the fields |
/// | `projection(PostCard, without(body))` | generates a projection with all fields except these, here `PostCard`; `derive(…)` adds derives, as in `projection(PostCard, without(body), derive(serde::Serialize))`. Can be repeated |
/// | `insert_struct` | generates an insert struct, because an embedded struct has managed fields |
/// | `hooks` | the model implements `odm::Hooks`, which run before and after writes |
/// | `crate = mapper` | the path of the crate `odm`, if the crate has a different name |
///
/// A model with managed fields, here `Task`, gets an insert struct `NewTask` without these fields. Applications insert a
/// `NewTask`. The insert struct implements `Deserialize`, and `Clone`, `Debug` and `Default` if all fields do.
///
/// # On a field
///
/// | attribute | meaning |
/// |---|---|
/// | `#[embed]` | an embedded struct or a map, or an `Option` of these |
/// | `#[embed(max = N)]` | an array of at most `N` elements; every write checks the limit |
/// | `#[embed(unbounded)]` | an array without a limit; a document holds at most 16 MB |
/// | `#[reference]` | a `Ref`, an `Option<Ref>` or a `Vec<Ref>` |
/// | `#[reference(max = N)]` | a `Vec<Ref>` of at most `N` elements |
/// | `#[reference(exists, on_delete = …)]` | a reference with an existing target, [see below](#references-with-rules); an array with `max = N` |
/// | `#[reference(inverse = field, on_delete = …)]` | additionally, the target stores the inverse, [see below](#two-way-links) |
/// | `#[reference(inverse_of = field)]` | the inverse: an `Option<Ref>`, with `max = N` a `Vec<Ref>`, or with `overflow(…)` an `Overflow<Ref>` |
/// | `#[denormalize(from = host.ipaddr)]` | a copy that fan-outs keep up to date, [see below](#copies-and-snapshots); with `sync` or `background` |
/// | `#[count(of = Comment::post)]`, `#[sum(…)]`, `#[avg(…)]`, `#[min(…)]`, `#[max(…)]`, `#[latest(…)]` | a rollup of child documents, [see below](#counts-sums-and-the-latest) |
/// | `#[sequence(per = shop)]`, `#[sequence]` | a number that the insert assigns: 1, 2, 3 … for each value of another field, [see below](#sequence-numbers) |
/// | `#[tree(parent = parent)]` | the ancestors of a document in a tree, [see below](#trees); with `max = N` |
/// | `#[snapshot(from = product.price)]`, `#[snapshot]` | a value that is set once; with `origin`, the framework also stores the source and the time |
/// | `#[index]`, `#[index(…)]` | an index over this field, with options |
///
/// A field with a single value (a number, a text, a date, an enum, a newtype) has neither `#[embed]` nor `#[reference]`.
///
/// # The options of an index
///
/// | option | meaning |
/// |---|---|
/// | `unique` | no two documents have the same value; an `Option`, which is stored as null, needs a `partial` condition for present values: `partial = \|m\| m.nick().gt("")` |
/// | `sparse` | documents without the field are left out |
/// | `partial = \|m\| m.name().exists()` | only documents that meet the condition |
/// | `descending` | largest first, for an index of one field |
/// | `ignore_case` | the text without case; serves `eq_ignore_case` and `starts_with_ignore_case`. In `index(…)`: `index(shop, ignore_case(name); unique)` |
/// | `all_scopes` | the scope of the model is not added in front of the fields |
/// | `expire_after_seconds = N` | MongoDB deletes documents `N` seconds after the date in the field |
/// | `name = "…"` | the name; by default derived from the fields |
///
/// # Enums
///
/// An enum can be the model of a collection with several kinds of documents. The enum has `#[serde(tag = "kind")]`, and each
/// variant holds a struct that is a model too, with `#[document(variant_of = Shape)]`. The trait `VariantOf` has an example.
///
/// | setting | meaning |
/// |---|---|
/// | `collection`, `index(…)`, `version`, `timestamps` | as for a struct; `version` and `timestamps` are declared on each variant's struct too |
/// | `shared(area: f64, name: String)` | fields that the struct of every variant has: usable in queries, updates and sorts of all documents |
///
/// Queries of all documents also have `id()`, the tag under its stored name (`kind()`, if valid in Rust), and a closure for each
/// variant, as for an embedded enum: `s.circle(|c| c.radius().gt(2.0))`, `s.is_circle()`. A schema lists the enum, which includes
/// the models of the variants. The indexes of a variant's struct contain only documents of that variant
/// (`partialFilterExpression`), and their default names end with the tag, `radius_1_circle`.
///
/// `rename` and `rename_all` change the stored tags. Documents need an internally tagged enum. Without a `tag`, and with a
/// `content`, serde stores the `_id` one level down; an `untagged` enum stores no variant. Variants with `skip` are not
/// supported, because serde does not store them.
///
/// # Validation
///
/// With `validate` and the feature `garde` of the crate `odm`, the model also derives `garde::Validate`, and typed writes check
/// the rules. A violated rule is an error of kind `Validation`, with all violations by stored path; no document is written then.
/// `insert`, `insert_many`, `or_insert`, `save`, `modify` and inserts of a bulk check the whole document. Updates:
///
/// | update | check |
/// |---|---|
/// | `set`, `min`, `max` of a field, or of an element | the value, by all rules of the field, before the request is sent |
/// | `set` of a field of an embedded struct that has `#[garde(dive)]` and `#[embedded(validate)]` | the value, by the rules of that field |
/// | `unset` | as `None`: `required` |
/// | `push`, `push_each`, `push_with`, `add_to_set` | the elements, by `inner` and `dive` |
/// | `push…`, `add_to_set`, `pull`, `pop` of an array with a `length` or a rule as a whole; `inc`, `mul`, `bit_…`, `current_date` with any rule; `rename` to a field with a rule | the outcome |
/// | `set` of a field with rules that read other fields (`matches`, `self.other`), or of a field that such rules read | the outcome |
/// | `set` inside a value with a rule as a whole (`custom`), an embedded struct without `#[embedded(validate)]`, an enum, or a generic struct | the outcome |
///
/// The outcome is checked in the caller's transaction or in a new transaction. The framework reads the documents after the update
/// and rolls the update back if a rule is violated at a path that the update may have changed. On a standalone server such an
/// update is an error of kind `Unsupported`; use `modify` instead. Two concurrent saves of two fields that a single rule reads
/// are detected only with a `version`.
///
/// # References with rules
///
/// A plain `#[reference]` may dangle. A reference with `exists` or `on_delete` has a target that exists for the writing session:
/// in the same scope, and not soft-deleted. Writing any other id is an error of kind `Dangling`, even if the target is deleted
/// concurrently. `on_delete` is the delete rule for referrers of a deleted target:
///
/// | `on_delete` | effect |
/// |---|---|
/// | `restrict`, the default | the delete is an error of kind `Restricted`, and no document is deleted |
/// | `cascade` | referrers are deleted too, by their own delete rules |
/// | `nullify`, of an `Option<Ref>` | the reference is set to `None` |
/// | `pull`, of a `Vec<Ref>` | the reference is removed from the array |
/// | `keep` | the reference stays and dangles |
///
/// The rules apply to the whole delete set: a referrer inside the delete set does not restrict the delete. If a referrer outside
/// of the delete set does, no document is deleted.
///
/// References in embedded structs have delete rules too, at any depth of structs, options and arrays of structs: `lines.product`.
/// References of several elements are handled together. `cascade` deletes the document, and `nullify` empties the reference in
/// each element. `pull` removes the whole struct from the nearest array, which must exist, if the reference is the only one in
/// its struct. Delete rules are not supported yet in maps, arrays of arrays, variants, and structs that contain themselves.
///
/// Delete rules apply to all referrers, including documents of other scopes and soft-deleted documents. A soft delete does not
/// trigger delete rules, except with `soft_delete(cascade)`. The cascade of a permanent delete deletes documents permanently.
///
/// The framework finds referrers by an index of the reference. The derive declares this index unless a declared index starts with
/// the same fields.
///
/// A write and its consequences are one transaction, the caller's or a new one, which also writes to all new targets. Concurrent
/// writes that refer to the same target therefore run one after the other. A delete of more than 10,000 documents runs in several
/// transactions unless the caller has opened one. On a standalone server each document is written separately: `update_many` and
/// `insert_many` go document by document, and an error leaves earlier documents written. A delete without a single transaction
/// first sets tombstones on the delete set, and removes the documents once no referrer restricts the delete. `delete_many`
/// deletes one document after the other. A restricted document is retried after the rest, because the delete of its referrers may
/// have removed the restriction; otherwise the error is returned. `Database::run_pending` finishes the work of a process that
/// died.
///
/// With `keep`, a document that is inserted again under the same `_id` has an incomplete inverse: references that were kept are
/// missing. The integrity check finds the missing entries, and the repair adds them.
///
/// # Two-way links
///
/// A reference with `inverse = field` is a reference with delete rules, which the application writes. The target model has a
/// field of that name with `inverse_of`, the inverse, which the framework maintains. The inverse has no setter, is missing in the
/// insert struct, and a `save` that changes the inverse is an error. Queries can filter by and join the inverse like any
/// reference. A schema checks that both sides name each other.
///
/// The inverse must have room: for a single reference (`AlreadyLinked`) or for `max` references (`TooManyElements`).
///
/// # Copies and snapshots
///
/// `#[denormalize(from = host.ipaddr)]` is a copy of a field of the document that the reference `host` in the same struct refers
/// to. The struct can be a document or an embedded struct, also in arrays. The copy has the type of the source field, or an
/// `Option` of that type with an `Option<Ref>`. A copy can be a whole embedded struct, and the source field can be a copy. The
/// copy is filled at the insert and at every change of the reference; a missing source document is an error of kind `Dangling`.
/// The copy has no setter, and is missing in the insert struct.
///
/// Every typed write of the source starts a fan-out, which writes the new value to the copies. Before the write returns, the
/// fan-out writes up to 500 copies, with `sync` all, with `background` none. With transactions, these copies are part of the
/// write's transaction. The fan-out finds dependents by an index of the reference, which `sync_indexes` creates; without the
/// index the write is an error of kind `Unsupported`. `Database::wait_for_pending` waits for the rest of the fan-out. A deleted
/// source leaves its last value in the copies, unless the delete rule removes the reference.
///
/// `#[snapshot(from = product.price)]` is filled once: when the document is inserted, or when the struct is pushed into its
/// array. The application provides the value of a plain `#[snapshot]` at the insert. No update changes a snapshot, and a `save`
/// that does is an error of kind `Invalid`. With `origin`, the framework stores the source document and the time of the snapshot
/// under `_odm`. `find().drift()` compares snapshots with the current values of their sources.
///
/// A struct that embeds structs with copies or snapshots declares `insert_struct`: then `NewOrder` has a `Vec<NewOrderLine>`.
///
/// # Trees
///
/// `#[tree(parent = parent)]` on a `Vec<Ref<Self>>` holds the ancestors of the document, from the root to the parent. `parent` is
/// an `Option<Ref<Self>>` with the delete rule `restrict`, `cascade` or `nullify`; a root has the parent `None`. The ancestors
/// follow each change of a parent as copies do: of the document, and of every document above. The field has no setter, and is
/// missing in the insert struct. A move of a document below itself is an error of kind `Invalid`.
///
/// `max = N` is the maximum number of ancestors of a document that is inserted or moved, from 1 to 1000. The default is 100. The
/// derive declares an index of the ancestors. The trait [`TreeDocument`](../odm/document/trait.TreeDocument.html) has an example,
/// and the book, `book/src/trees.md`, describes guarantees and costs.
///
/// # Computed fields
///
/// `#[computed(…)]` is a function of other fields of the document, of type `i64`, `f64`, `Decimal128` or `String`. A formula
/// consists of fields, including fields of embedded structs, of numbers, texts, `+`, `-`, `*`, `/`, and of
///
/// | function | result |
/// |---|---|
/// | `sum(a, b)` | `a + b` |
/// | `sum(lines.price * lines.quantity)` | the sum over the elements of the array `lines` |
/// | `len(lines)` | the number of elements of an array, or of keys of a map |
/// | `lower(name)` | the text with the letters A to Z in lower case |
/// | `trim(name)` | the text without white space at both ends |
/// | `concat(first, " ", last)` | the texts in sequence |
///
/// A quotient is an `f64`, and needs the value of the field for a zero divisor: `#[computed(stars / reviews, default = 0.0)]`.
/// A missing value or null counts as 0, or as an empty text. The field is computed at the insert and with every typed update, in the same atomic
/// operation. A computed field has no setter, is missing in the insert struct, and a `save` that changes the field is an error of
/// kind `Invalid`. A write with a result outside of the range of `i64` is an error of kind `Invalid` too. A formula can use
/// snapshots, rollups and other computed fields, but no copies, because fan-outs change copies. Embedded structs and variants cannot have
/// computed fields yet. The book, `book/src/computed.md`, lists the updates that need a transaction.
///
/// # Counts, sums and the latest
///
/// A parent document can store rollups of its child documents, the documents that refer to the parent:
///
/// | attribute | type | value |
/// |---|---|---|
/// | `#[count(of = Comment::post)]` | `i64` | the number of children |
/// | `#[sum(of = Comment::post, value = likes)]` | `i64` | the sum of an integer field |
/// | `#[avg(of = Comment::post, value = likes)]` | `Option<f64>` | the average of an integer field; `None` without children |
/// | `#[min(of = Comment::post, value = at)]` | `Option` of the type of the field | the smallest value of a field; `None` without children |
/// | `#[max(of = Comment::post, value = at)]` | `Option` of the type of the field | the greatest value of a field; `None` without children |
/// | `#[latest(10, of = Comment::post, by = at)]` | `Vec<Excerpt>` | the ten children with the greatest values of a field, in descending order |
///
/// `of` names the child model and its reference to the parent: a `Ref`, an `Option` of a `Ref`, or a `Vec`.
/// `when(is_shown = true, likes >= 10)` restricts the rollup to children that meet all conditions, with `=`, `!=`, `<`, `<=`, `>` or
/// `>=`. An element of `latest` is an embedded struct with some fields of the child model, with equal names and types:
/// `#[embedded(of = Comment)]`.
///
/// A new parent starts with 0, `None` or an empty array, unless children exist already. A document that is older than the
/// declaration reads as if the parent had no children, until `Database::repair` has filled the field. Rollups are up to date before a write of a child
/// returns. Rollups have no setter, are missing in the insert struct, and a `save` that changes a rollup is an error of kind
/// `Invalid`. The book, `book/src/rollups.md`, describes guarantees and costs.
///
/// # Arrays that overflow
///
/// `#[embed(overflow(after = 50, into = "extra_sales"))]` on an `Overflow<T>` keeps the first 50 elements resident in the
/// document and spills the rest to chunk documents in the collection `extra_sales`:
///
/// | setting | meaning |
/// |---|---|
/// | `after = 50` | the number of resident elements |
/// | `inline`, instead of `after` | all new elements stay in the document, up to 4 MiB, and `fold` moves spilled elements back, up to 3 MiB: the way to an array without overflow |
/// | `into = "extra_sales"` | the collection of the chunk documents, which no model uses |
/// | `owner = "book_id"` | the field of a chunk document with the `_id` of the owner document; default `owner` |
/// | `seq = "number"` | the field of a chunk document with its number; default `seq` |
/// | `elements = "rest"` | the field of a chunk document with the elements; default: the name of the array with the suffix `_extra` |
/// | `flag = "has_more"` | the field of the owner document that exists while elements are spilled; default `has_extras` |
/// | `first_by = seconds` | the elements are sorted by this element field, and the first elements are resident |
/// | `latest_by = at` | the elements are sorted by this element field in descending order |
///
/// Elements may have snapshots, but no copies. References overflow with `#[reference(overflow(…))]` on an `Overflow<Ref<T>>`,
/// optionally with `exists`, `on_delete` and `inverse`. An inverse overflows with
/// `#[reference(inverse_of = field, overflow(…))]`.
///
/// The book, `book/src/overflow.md`, describes guarantees and costs.
///
/// # An `_id` composed of fields
///
/// `id = "…"` is a template that composes the `_id`, a `String`, of texts and fields with slashes between them. The `_id` is
/// computed at the insert, and its parts never change: no update sets a part, and a `save` that changes a part is an error of
/// kind `Invalid`. The trait `IdPart` has an example.
///
/// | part | meaning |
/// |---|---|
/// | `users` | this text |
/// | `{name}` | the value of a field: a text, an integer, an `ObjectId`, a `Uuid`, a `Ref` to a document with such an `_id`; also the `scope` |
/// | `{number:06}` | an integer of six digits, padded with zeros; a longer or negative integer is an error |
/// | `{#number}`, `{#number:06}` | an integer that the framework assigns: the next number after the same preceding parts |
///
/// A model `Payment` with `id = "{user}/payments/{#number:06}"` has
///
/// - `Payment::id_for(&user, 7)`, which builds the `_id` from its parts, and `Payment::parts_of(&payment)`, which splits an `_id`
///   into a struct `PaymentIdParts`. Neither needs a query, and invalid input is an error of kind `Invalid`;
/// - `db.find::<Payment>().under(&user)`, if a part follows the first part: all documents with this first part.
///
/// Documents with different parts never have the same `_id`. A text is one segment, and so is the `_id` of
/// a model without a template. `/`, `%` and control characters in a segment are escaped (`a/b` becomes `a%2Fb`), and a segment is
/// never empty. A reference to a model with a template is not escaped and has as many segments as that template.
///
/// Ids sort as texts, where `10` comes before `2`. Give numbers that must sort a width that they never exceed.
///
/// Numbers start at 1, and each number is assigned once, also with concurrent inserts. They come from a counter in the collection
/// `_odm.sequences`, which costs an insert one additional write (`insert_many`: one for each parent). A new counter starts after
/// the largest stored number. The number of a deleted document is never reused, so an old id never identifies another document. A
/// failed insert or an aborted transaction leaves a gap. Documents that are inserted with a number outside of the framework are
/// not counted: an insert that reaches such a number is a `DuplicateKey` error.
///
/// # Sequence numbers
///
/// `#[sequence(per = shop)]` on an integer numbers the documents of each value of `shop`: the insert assigns 1, 2, 3 …; without
/// `per`, the model has one sequence. The insert struct has no such field. Numbers are unique and increase in the order of
/// assignment. A failed insert, an aborted transaction or a crash leaves a gap, as for numbers in ids. The derive declares a unique
/// index of `per` and the number.
///
/// The number and the field of `per` never change: no update sets the fields, and a `save` that does is an error of kind
/// `Invalid`. The field of `per` is a single value that every document has, or the `scope`. A document that is older than the declaration
/// reads as 0, until `Database::repair` has assigned the next number, in the order of the `_id`. The repair must precede
/// `sync_indexes`. The book, `book/src/sequences.md`, describes guarantees and costs.
///
/// # The shard key
///
/// `shard_key(…)` names the fields by which a sharded MongoDB cluster distributes the documents over its shards. The model
/// behaves the same on a single server and on the embedded engine, so an application moves to a cluster by changing the URL:
///
/// - a field of the key never changes: no update sets the field, and a `save` that does is an error of kind `Invalid`;
/// - a write of one document must identify the shard. The caller passes the document that was read, `db.update::<Order>(&order)`,
///   or a generated struct with the `_id` and the rest of the key, `OrderKey { id, customer }`. The `_id` alone does not compile,
///   unless the `_id` is the key, or the rest of the key is the `scope` of the session;
/// - `update_first` and `delete_first` need a condition with one value for each field of the key, or return an error of kind
///   `Invalid`; reads, and writes to all matching documents, accept any condition;
/// - there is an index that begins with the key; the derive adds the index if no declared index does. A unique index must begin
///   with the key;
/// - `Database::sync_indexes` shards the collection, if the database is a cluster and the collection is not sharded yet;
///   otherwise the report says that the collection is not sharded.
///
/// The fields are single values that are always present, at the top level of the document. One field may be `hashed(…)`, which
/// distributes neighbouring values. The framework cannot change the key of a collection later. Choose a key that most reads and
/// writes know, and that has no value shared by very many documents. An `_id` is unique only within a shard, unless the `_id` is
/// the key: use globally unique ids.
///
/// *How this is tested:* the tests run without a cluster. They check that the recorded commands of every single-document write
/// contain the key in the filter, on every backend, and which commands a simulated router receives.
///
/// # serde
///
/// `rename`, `rename_all`, `skip` and `bound` have serde's meaning, in every place with a field name.
///
/// A value has one stored form, whichever action writes the value:
///
/// - `skip_serializing_if = "Option::is_none"` leaves `None` out of the document. `set(…, None)`, `on_delete`, links and copies
///   do the same. Without the attribute, `None` is stored as null. Filters treat a missing field and null alike.
/// - `skip_serializing_if` of an empty array or map behaves the same; `has_len(0)` and `eq` of an empty value find both forms.
/// - `default` of an `Option`, an array or a map: a missing field reads as empty, and filters for an empty value find the missing
///   field.
/// - `default` of any other field: a stored document may lack the value, and the database does not know the default. Such a field
///   can be read, set, and tested by `exists()`. Conditions on the value, sorts, groups, `inc` and copies do not compile. To use
///   the field there, store the default once, `db.update_many::<Post>(|p| !p.level().exists()).set(|p| p.level(), 3)`, and remove
///   `default`.
///
/// These attributes do not compile, because the stored form would differ from the value in Rust or from the name in filters:
///
/// - `alias`, and `default` of a whole type: use a `schema_version` with an `upgrade`.
/// - `flatten`, `with` and similar attributes: put them on a newtype that derives `Embedded`.
/// - different names for writing and reading, `skip_serializing` or `skip_deserializing` alone, `deny_unknown_fields`.
/// - `transparent`, `from` and `into` on a document.
#[proc_macro_derive(
    Document,
    attributes(
        document,
        embed,
        reference,
        index,
        denormalize,
        snapshot,
        count,
        sum,
        avg,
        min,
        max,
        latest,
        computed,
        sequence,
        tree
    )
)]
pub fn document(input: TokenStream) -> TokenStream {
    run_derive(
        parse_macro_input!(input as DeriveInput),
        expand::document::expand,
        fallback::document_stub,
    )
}

/// Makes a type storable in a document.
///
/// A struct with named fields is embedded: queries and updates can use each field. The fields may have `#[embed]`,
/// `#[reference]`, `#[denormalize]` and `#[snapshot]`, as for `Document`; the document declares the indexes. A newtype, and a
/// struct that serde stores as another type (`transparent`, `from`, `into`), is one value, compared and set as a whole. A newtype
/// can be an `_id`, and has an order if the inner type has an order.
///
/// # Enums
///
/// An enum with data is embedded too, so a field of this type has `#[embed]`. Each variant has a method that tests for the
/// variant, and a method that takes a closure about its content:
///
/// | variant | test | condition on the content |
/// |---|---|---|
/// | `Card { number: String }` | `p.payment().is_card()` | `p.payment().card(\|c\| c.number().eq("1"))` |
/// | `Invoice(InvoiceData)` | `p.payment().is_invoice()` | `p.payment().invoice(\|i\| i.due().lt(now))` |
/// | `Transfer(String, i64)` | `p.payment().is_transfer()` | `p.payment().transfer(\|from, amount\| amount.gt(5))` |
/// | `Cash` | `p.payment().is_cash()` | |
///
/// The trait of the same name has an example. The condition holds only for values of the variant, and in an array for one
/// element: `p.payments().any(|x| x.card(|c| …))`. In an update the closure returns a field, which is written only in documents
/// with this variant. A whole value is compared and set as of any type.
///
/// The derive supports serde's tagged representations: external (`{"Card": {…}}`), `tag`, and `tag` with `content`, with
/// `rename`, `rename_all`, `rename_all_fields`, `skip` and `other` (any variant without a name here). In an internally tagged
/// enum a newtype variant holds an embedded struct. The fields of variants have `#[embed]` and `#[reference]` as the fields of
/// structs. In a tuple, a struct or a map needs no attribute, but an array or a `Ref` does:
/// `Tags(#[embed(max = 20)] Vec<String>)`.
///
/// An enum with unit variants only is one value, and its field has no attribute: `p.state().eq(State::Open)`. The enum sorts by
/// its stored names. An `untagged` enum is one value too, because documents do not store the variant.
///
/// # Both
///
/// A struct may contain itself (`replies: Vec<Comment>`); two structs that contain each other are not supported yet.
///
/// `#[embedded(of = Comment)]` declares that the struct has some fields of a model, with equal types: an element of
/// `#[latest(…)]`.
///
/// `#[embedded(validate)]` makes the rules of each field available to updates: see `Document`.
///
/// `#[embedded(crate = mapper)]` is the path of the crate `odm`, if the crate has a different name.
#[proc_macro_derive(
    Embedded,
    attributes(
        embedded,
        embed,
        reference,
        index,
        denormalize,
        snapshot,
        count,
        sum,
        avg,
        min,
        max,
        latest,
        computed,
        sequence,
        tree
    )
)]
pub fn embedded(input: TokenStream) -> TokenStream {
    run_derive(
        parse_macro_input!(input as DeriveInput),
        expand::embedded::expand,
        fallback::embedded_stub,
    )
}

/// Makes a struct without parameters the schema of a database: `#[schema(models(Product, Part))]`.
///
/// A reference to a model outside of the schema, two models on one collection, and a model listed twice are compile errors.
///
/// `#[schema(crate = mapper)]` is the path of the crate `odm`, if the crate has a different name.
#[proc_macro_derive(Schema, attributes(schema))]
pub fn schema(input: TokenStream) -> TokenStream {
    run_derive(
        parse_macro_input!(input as DeriveInput),
        expand::schema::expand,
        fallback::schema_stub,
    )
}

/// Makes a struct a projection: some fields of a model's documents, or of an embedded struct: `#[projection(of = Product)]`.
///
/// The struct derives serde's `Deserialize`. Each field has the name, the stored name and the type of the model's field. Instead
/// of an embedded struct, and of an option, an array or a map of such structs, a field may have a projection of that struct.
///
/// `#[projection(crate = mapper)]` is the path of the crate `odm`, if the crate has a different name.
#[proc_macro_derive(Projection, attributes(projection))]
pub fn projection(input: TokenStream) -> TokenStream {
    run_derive(
        parse_macro_input!(input as DeriveInput),
        expand::projection::expand,
        fallback::projection_stub,
    )
}

/// Makes a struct a patch: new values for some fields of a model or of an embedded struct, `#[patch(of = Product)]`.
///
/// Each field is an `Option`, with the name of a field of the model. The trait of the same name has an example. The derive
/// implements serde's `Deserialize` too, and reads serde's attributes.
///
/// | setting | meaning |
/// |---|---|
/// | `#[patch(of = Product)]` | the model, or the embedded struct |
/// | `#[patch(crate = mapper)]` | the path of the crate `odm`, if the crate has a different name |
/// | `#[patch(nested)]` on a field | the type is an `Option` of the patch of an embedded struct |
#[proc_macro_derive(Patch, attributes(patch, serde))]
pub fn patch(input: TokenStream) -> TokenStream {
    run_derive(
        parse_macro_input!(input as DeriveInput),
        expand::patch::expand,
        fallback::patch_stub,
    )
}

/// The expansion of a derive: returns code, or `None` after errors.
type Expand = fn(&mut ctxt::Ctxt, &DeriveInput) -> Option<proc_macro2::TokenStream>;
type Fallback = fn(&DeriveInput) -> proc_macro2::TokenStream;

/// Runs a derive. After errors, the output is the code of the valid parts, or a stub from `fallback`, so that uses of the type do
/// not cause more errors.
fn run_derive(input: DeriveInput, expand: Expand, fallback: Fallback) -> TokenStream {
    let input = &self_type::expand_self(input);
    let mut ctxt = ctxt::Ctxt::default();
    let expanded = expand(&mut ctxt, input);
    let code = expanded.unwrap_or_else(|| fallback(input));
    let checks = ctxt.compiler_checks();
    let errors = ctxt.into_errors();
    quote::quote!(#errors #code #checks).into()
}
