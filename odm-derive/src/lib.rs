//! The derives of the crate `odm`, which re-exports them: use them from there.
//!
//! Each is three steps: parse the input into a model, check it, expand it. All errors of an input are reported at once,
//! each at the token that it is about.

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

/// Makes a struct or an enum the model of a collection's documents. The trait of the same name has an example of every
/// attribute.
///
/// The struct has named fields and derives serde's `Serialize` and `Deserialize`; the field that serde calls `_id` is the
/// id. Type parameters are fine (`struct Batch<T: Embedded>`, with `#[serde(bound = "")]`), lifetimes are not.
///
/// # On the struct: `#[document(…)]`
///
/// | setting | says |
/// |---|---|
/// | `collection = "parts"` | where the documents are; there is no default |
/// | `index(host, -time; unique)` | an index over these fields, in this order, `-` for descending; through embedded structs by `outer.inner`; its options stand behind the semicolon |
/// | `version`, `version = field` | the framework counts the writes of a document in this `i64`, and a save of what is out of date is a conflict |
/// | `timestamps`, `timestamps(created = field, updated = field)` | the framework keeps there when a document was inserted and when it was written last; the fields are `created_at` and `updated_at` unless named |
/// | `variant_of = Shape` | the documents are those of one variant of an enum, in its place of a `collection` |
/// | `soft_delete`, `soft_delete = field` | a delete sets a date in this `Option<DateTime>`, `deleted_at` unless named, and nothing finds the document from then on but what asks for it: [`SoftDelete`](../odm/trait.SoftDelete.html) |
/// | `scope = tenant` | the field says whose a document is, and only sessions for that one reach it: [`Session::scope`](../odm/struct.Session.html#method.scope) |
/// | `id = "{user}/payments/{#number:06}"` | the `_id` is made of fields: see below |
/// | `shard_key(customer, id)`, `shard_key(hashed(customer))` | by what a sharded cluster spreads the documents: see below |
/// | `schema_version = 2`, `upgrade = function` | documents of older versions become those of this one when they are read or written; a write then costs one indexed look more: [`Session::upgrade`](../odm/struct.Session.html#method.upgrade) |
/// | `validate` | every typed write keeps to the rules of the crate `garde` on the fields: see below |
/// | `companion` | a companion for inserting, as something embedded has fields that the framework fills |
/// | `hooks` | the model says by `impl odm::Hooks` what is done before and after its writes |
/// | `crate = mapper` | the path of the crate `odm`, if it has another name |
///
/// Of a model with fields that the framework fills, here `Task`, a companion `NewTask` is made without them: that is what is inserted.
///
/// # On a field
///
/// | attribute | says |
/// |---|---|
/// | `#[embed]` | an embedded struct or a map, or an `Option` of one |
/// | `#[embed(max = N)]` | an array of at most `N` elements; every write keeps to it |
/// | `#[embed(unbounded)]` | an array that grows without end; a document holds 16 MB at most |
/// | `#[reference]` | a `Ref`, an `Option<Ref>` or a `Vec<Ref>` |
/// | `#[reference(max = N)]` | a `Vec<Ref>` of at most `N` elements |
/// | `#[reference(exists, on_delete = …)]` | a reference to a document that is there, [see below](#references-with-rules); an array of them with `max = N` |
/// | `#[reference(inverse = field, on_delete = …)]` | the same, and the other side knows of it, [see below](#two-way-links) |
/// | `#[reference(inverse_of = field)]` | the other side: an `Option<Ref>`, with `max = N` a `Vec<Ref>`, or with `overflow(…)` an `Overflow<Ref>` |
/// | `#[denormalize(from = host.ipaddr)]` | a copy that follows its source, [see below](#copies-and-snapshots); with `sync` or `background` |
/// | `#[count(of = Comment::post)]`, `#[sum(…)]`, `#[latest(…)]` | what others make of it that refer to it, [see below](#counts-sums-and-the-latest) |
/// | `#[snapshot(from = product.price)]`, `#[snapshot]` | a value that is taken, or said, once; with `origin` it is remembered of what and when |
/// | `#[index]`, `#[index(…)]` | an index over this field, with options |
///
/// A field of one value (a number, a text, a date, an enum, a newtype) has neither `#[embed]` nor `#[reference]`.
///
/// # The options of an index
///
/// | option | says |
/// |---|---|
/// | `unique` | no two documents have the same; of an `Option`, which is stored as null, with a `partial` that asks for what is there: `partial = \|m\| m.nick().gt("")` |
/// | `sparse` | documents without the field are left out |
/// | `partial = \|m\| m.name().exists()` | only documents that meet the condition |
/// | `descending` | largest first, for an index of one field |
/// | `expire_after_seconds = N` | documents are deleted so long after the date in the field |
/// | `name = "…"` | its name; made of its fields otherwise |
///
/// # Enums
///
/// An enum is the model of a collection with documents of several kinds: it has `#[serde(tag = "kind")]`, and each variant
/// holds a struct that is a model too, with `#[document(variant_of = Shape)]`. The trait `VariantOf` has an example.
///
/// | setting | says |
/// |---|---|
/// | `collection`, `index(…)`, `version`, `timestamps` | as for a struct; the latter two are said of each variant's struct too |
/// | `shared(area: f64, name: String)` | fields that the struct of every variant has: of all documents they can be asked for, updated, sorted by, read |
///
/// Of all documents there are also the `id()`, the tag under its own name (`kind()`, if that can be one in Rust), and a closure for
/// each variant, as for an embedded enum: `s.circle(|c| c.radius().gt(2.0))`, `s.is_circle()`. A schema lists the enum,
/// which brings the models of its variants along. The indexes of a variant's struct are over its documents alone
/// (`partialFilterExpression`), and their default names end with the tag, `radius_1_circle`.
///
/// `rename` and `rename_all` name the variants in the tag. Other representations cannot be documents: without a `tag`, and with
/// a `content`, serde stores the `_id` one level down, and in what is `untagged` nothing tells the variants apart. Nor can
/// variants with `skip`, as they are not stored.
///
/// # Validation
///
/// With `validate` and the feature `garde` of the crate `odm`, the model derives `garde::Validate` as well, and typed writes keep to its
/// rules. What breaks one is an error of kind `Validation`, with all violations by their stored paths; nothing is written then.
/// `insert`, `insert_many`, `or_insert`, `save`, `modify` and inserts of a bulk check the whole document. Updates:
///
/// | update | is checked |
/// |---|---|
/// | `set`, `min`, `max` of a field, or of an element | its value, by all rules of the field, before anything is sent |
/// | `set` of a field of an embedded struct that has `#[garde(dive)]` and `#[embedded(validate)]` | the same, by the rules of that field |
/// | `unset` | as `None`: `required` |
/// | `push`, `push_each`, `push_with`, `add_to_set` | the elements, by `inner` and `dive` |
/// | the same, `pull`, `pop`, where the array has a `length` or a rule as a whole; `inc`, `mul`, `bit_…`, `current_date` where there is any rule; `rename` to a field with one | the outcome |
/// | `set` of a field whose rules look at others (`matches`, `self.other`), or at which those of others look | the outcome |
/// | `set` inside of a value with a rule as a whole (`custom`), of an embedded struct without `#[embedded(validate)]`, of an enum, and in a generic struct | the outcome |
///
/// The outcome is checked in a transaction, the caller's or one of its own: the documents are read behind the update, and if a rule is broken
/// at a place that it may have changed, none of it is kept. On a standalone server such an update is an error of kind `Unsupported`, and
/// `modify` does the same. Two saves at once that change two fields which one rule looks at are told apart by a `version` alone.
///
/// # References with rules
///
/// A plain `#[reference]` may lead to a document that is not there. One with `exists` or `on_delete` leads to one that is, for the session
/// that writes it: not deleted by a mark, of its scope. Writing another one is an error of kind `Dangling`, also if the document is
/// deleted at the same time. What its deletion does to those that refer to it is said by `on_delete`:
///
/// | `on_delete` | does |
/// |---|---|
/// | `restrict`, if nothing is said | the deletion is an error of kind `Restricted`, and nothing is deleted |
/// | `cascade` | they are deleted too, by their own rules |
/// | `nullify`, of an `Option<Ref>` | they refer to nothing |
/// | `pull`, of a `Vec<Ref>` | it leaves their arrays |
/// | `keep` | they refer to what is not there |
///
/// All that goes in one deletion is looked at together: a document that goes itself keeps no other one from going, and if something that
/// stays does, nothing is deleted.
///
/// A reference of an embedded struct has such rules too, at any depth of structs, options and arrays of structs: `lines.product`. Those of
/// several elements are looked at together; `cascade` deletes the document; `nullify` empties the reference in each element that has it;
/// and `pull`, of a reference that is alone in its struct, takes the whole struct out of the nearest array, which there must be. In maps,
/// in arrays directly inside of arrays, in variants, and in a struct that holds itself there are none yet.
///
/// It is done to all of them: those of other scopes too, and those that are deleted by a mark. A mark itself is no deletion here: what it
/// is set on can come back. What a cascade deletes is deleted for good.
///
/// They are found by an index of the reference, which is declared with it unless there is one that begins so.
///
/// All that belongs to a write is one transaction, the caller's or one of its own, in which the documents that are referred to from now on
/// are written to: two that refer to one document at the same time come one after the other. A deletion of its own that takes more than
/// 10,000 documents goes in parts, and on a standalone server each document is written by itself: there `update_many` and `insert_many` go
/// document by document, and an error leaves those before it written. What goes with a document is marked first, and goes once it is known
/// that nothing keeps any of it. `delete_many` does so for one after the other; one that is kept is tried again behind the others where
/// these may be what keeps it, and then the error is told. `Database::settle` finishes what a process that died has begun.
///
/// With `keep`, a document that is inserted again under the same `_id` does not list what still refers to it: the check finds that, and
/// the repair mends it.
///
/// # Two-way links
///
/// A reference with `inverse = field` is one with rules, written by the application. The field of that name in the model that it leads to
/// has `inverse_of`, and follows by itself: it has no setter, is missing in the companion that is inserted, and a `save` that changes it is
/// an error. It can be filtered by and joined as any reference. A schema checks that both sides name each other.
///
/// The inverse must have room: for one (`AlreadyLinked`) or for `max` (`TooManyElements`).
///
/// # Copies and snapshots
///
/// `#[denormalize(from = host.ipaddr)]` is a copy of a field of the document to which the reference `host` beside it leads, and follows it: in a
/// document as in an embedded struct, also in arrays. The copy has the type of its source, through an `Option<Ref>` an `Option` of that. It
/// can be a whole embedded struct, or a copy itself. It is filled when the document is inserted and whenever the reference changes, which is
/// an error of kind `Dangling` where there is nothing to copy from. It has no setter, and is missing in the companion that is inserted.
///
/// Every typed write of the source leads to its copies being changed: before the answer up to 500 of them, with `sync` all, with
/// `background` none; where there are transactions, what is before the answer is in the write's own. They are found by an index of the
/// reference, which `sync_indexes` creates; without it such a write is an error of kind `Unsupported`. `Database::settled` waits for what is
/// behind the answer. A source that is deleted leaves its last value, unless the reference goes with it.
///
/// `#[snapshot(from = product.price)]` is taken in the same way, once: when the document is inserted, or the struct is pushed into its
/// array. A field with `#[snapshot]` alone is said when the document is inserted. No update changes them, and a `save` that does is an error
/// of kind `Invalid`. With `origin` it is remembered, in `_odm` beside it, of which document a snapshot was taken, and when; what has become of
/// its source since is found by `find().drift()`.
///
/// A struct that embeds some with such fields says `companion`: then `NewOrder` has a `Vec<NewOrderLine>`.
///
/// # Computed fields
///
/// `#[computed(…)]` is a function of other fields of the document, of type `i64`, `f64` or `Decimal128`. It is made of fields, also inside of
/// embedded structs, of numbers, `+`, `-`, `*`, and of
///
/// | function | gives |
/// |---|---|
/// | `sum(a, b)` | `a + b` |
/// | `sum(lines.price * lines.quantity)` | the sum over the elements of the array `lines` |
/// | `len(lines)` | how many elements an array has, or keys a map |
///
/// What is missing or null counts as 0. It is filled when the document is inserted, and right behind every typed update, in the same atomic
/// operation. It has no setter, is missing in the companion that is inserted, and a `save` that changes it is an error of kind `Invalid`;
/// so is a write after which it would be beyond an `i64`. It can be made of snapshots and of other computed fields, not of copies, which
/// other writes change. In embedded structs and in variants there are none yet. The guide, `docs/guide/computed.md`, says which updates need
/// a transaction.
///
/// # Counts, sums and the latest
///
/// A document can have what others make of it that refer to it:
///
/// | attribute | on | is |
/// |---|---|---|
/// | `#[count(of = Comment::post)]` | `i64` | how many there are |
/// | `#[sum(of = Comment::post, value = likes)]` | `i64` | the sum of a field, which is an integer |
/// | `#[latest(10, of = Comment::post, by = at)]` | `Vec<Excerpt>` | the ten that have most in a field, the first of them first |
///
/// `of` names their model and the reference there that leads here: a `Ref`, an `Option` of one, or a `Vec`. With `when(is_shown = true)`
/// only those count that have these values in these fields. What stands among the latest is an embedded struct with some of the
/// fields, each as the model has it: `#[embedded(of = Comment)]`.
///
/// They are 0, or nothing, when the document is inserted, unless others refer to it already; and they are right before a write of those is
/// answered. They have no setter, are missing in the companion that is inserted, and a `save` that changes one is an error of kind `Invalid`.
/// The guide, `docs/guide/counts.md`, says what is guaranteed, and what it costs.
///
/// # Arrays that overflow
///
/// `#[embed(overflow(after = 50, into = "extra_sales"))]` on an `Overflow<T>` keeps the first 50 elements in the document and the others in
/// documents of the collection `extra_sales`:
///
/// | setting | is |
/// |---|---|
/// | `after = 50` | how many elements stay in the document |
/// | `gather`, in the place of `after` | all stay there, up to 4 MiB, and `fold` brings others back, up to 3 MiB: the way to an array that does not overflow |
/// | `into = "extra_sales"` | the collection of the others, which is no model's |
/// | `owner = "book_id"` | in its documents the field with the `_id` of the document; `owner` without it |
/// | `seq = "number"` | the field with the number of the document; `seq` |
/// | `elements = "rest"` | the field with the elements; the name of the array, with `_extra` behind it |
/// | `flag = "has_more"` | the field of the document that says that there are others, and is not there otherwise; `has_extras` |
/// | `first_by = seconds` | the elements are in the order of this field of theirs, and the first ones stay in the document |
/// | `latest_by = at` | the same, from the greatest to the least |
///
/// Elements may have snapshots, but no copies that follow. References overflow by `#[reference(overflow(…))]` on an `Overflow<Ref<T>>`,
/// with `exists`, `on_delete` and `inverse` or without, and so does the inverse of a link: `#[reference(inverse_of = field, overflow(…))]`.
///
/// The guide, `docs/guide/overflow.md`, says what is guaranteed, and what it costs.
///
/// # An `_id` made of fields
///
/// `id = "…"` says of which fields the `_id`, a `String`, is made: texts and fields with slashes between them. It is computed when a document
/// is inserted, and what it is made of never changes: no update sets it, and a `save` that would is an error of kind `Invalid`. The trait
/// `IdPart` has an example.
///
/// | part | is |
/// |---|---|
/// | `users` | this text |
/// | `{name}` | the value of a field: a text, an integer, an `ObjectId`, a `Uuid`, a `Ref` to a document with such an `_id`; the `scope` too |
/// | `{number:06}` | an integer of six digits, with zeros in front; a larger one, and a negative one, is an error |
/// | `{#number}`, `{#number:06}` | an integer that the framework gives: the next one among all with the same before it |
///
/// Of a model `Payment` with `id = "{user}/payments/{#number:06}"` there are
///
/// - `Payment::id_for(&user, 7)`, which makes the `_id` of its parts, and `Payment::parts_of(&payment)`, which finds them again in an
///   `_id`, as a struct `PaymentIdParts`: neither takes a query, and both are an error of kind `Invalid` for what the model does not make;
/// - `db.find::<Payment>().under(&user)`, if something stands behind the first part: the documents whose ids begin so.
///
/// No two different documents have the same `_id`, whatever is in their parts. A text, and the `_id` of a model that does not say of what it is
/// made, is one segment: in it, `/`, `%` and control characters are escaped (`a/b` is `a%2Fb`), and it is not empty. A reference to a model
/// with such ids stands there as it is, with as many segments as that model says.
///
/// Ids sort as texts, in which `10` comes before `2`. Numbers that are to sort have a width that they never outgrow.
///
/// Numbers begin with 1, and each is given once, whoever inserts at the same time. They come from a counter in the collection
/// `_odm.numbers`, which costs an insert one write more (and `insert_many` one for each parent), and begins behind the largest number that
/// is there when it is first needed. The number of a deleted document is never given again, so an old id leads to no other document; an
/// insert that fails, or a transaction that is taken back, leaves a gap. What is inserted around the framework afterwards, with
/// a number of its own, is not counted: an insert that then meets it is a `DuplicateKey`.
///
/// # The shard key
///
/// `shard_key(…)` says by which fields a sharded cluster of MongoDB spreads the documents over its shards. The model is then used in the
/// same way everywhere, on a single server and on the embedded engine too, so that the way to a cluster is the URL:
///
/// - a field of the key never changes: no update sets it, and a `save` that would is an error of kind `Invalid`;
/// - a write of one document says on which shard it is. It names the document that was read, `db.update::<Order>(&order)`, or its `_id` with
///   the rest of the key by a struct that is made for that, `OrderKey { id, customer }`; the `_id` alone does not compile, unless it
///   is the key, or the rest of the key is the `scope` of the session;
/// - `update_first` and `delete_first` ask for one value of each field of the key, or are an error of kind `Invalid`; what writes to all
///   that match, and what reads, asks for anything;
/// - there is an index that begins with the key, one more if none of the declared ones does. A unique one begins with the key as well;
/// - `Database::sync_indexes` shards the collection, if the database is a cluster and the collection is not sharded yet; elsewhere its
///   report says that it is not.
///
/// The fields are single values that are always there, at the top of the document. One of them may be `hashed(…)`, which spreads
/// neighbouring values. The key of a collection cannot be chosen again by the framework, so choose it with care: most reads and writes
/// should know it, and no value of it should be that of very many documents. An `_id` is unique on each shard only, unless it is the key: let ids
/// be such that no two are the same.
///
/// *How this is tested:* there is no cluster in the tests. What they check are the recorded commands: that every write of one document has
/// the key in its filter, on every backend, and what is sent to a router that only says that it is one.
///
/// # serde
///
/// `rename`, `rename_all`, `skip` and `bound` have the meaning that serde gives them, everywhere a field has a name.
///
/// A value has one stored form, whichever action writes it:
///
/// - `skip_serializing_if = "Option::is_none"` leaves `None` out of the document. So does `set(…, None)`, and so do `on_delete`,
///   links and copies. Without it, `None` is stored as null. Filters treat a missing field and null alike.
/// - `skip_serializing_if` of an array or a map that is empty likewise; `has_len(0)` and `eq` of nothing find both forms.
/// - `default` of an `Option`, an array or a map: a missing field reads as none of it, and is found as that.
/// - `default` of any other field: a stored document may lack the value that it reads as, and the database knows no default. Such a
///   field can be read, set, and asked for by `exists()`. Conditions on its value, sorts, groups, `inc` and copies do not
///   compile. To use the field in them, store the default once,
///   `db.update_many::<Post>(|p| !p.level().exists()).set(|p| p.level(), 3)`, and leave `default` out.
///
/// These attributes do not compile, as the stored form would differ from the value that is read or from the name in filters:
///
/// - `alias`, and `default` of a whole type: use a `schema_version` with an `upgrade`.
/// - `flatten`, `with` and similar ones: put them on a newtype that derives `Embedded`.
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
        latest,
        computed
    )
)]
pub fn document(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::document::expand,
        fallback::document,
    )
}

/// Makes a type one that can stand in a document.
///
/// A struct with named fields is embedded: its fields can be asked for and updated one by one. They may have `#[embed]`,
/// `#[reference]`, `#[denormalize]` and `#[snapshot]`, as for `Document`; indexes are declared by the document. A newtype, and a struct that serde stores
/// as something else (`transparent`, `from`, `into`) is one value, asked for and set as a whole; a newtype can be an
/// `_id`, and compared by order if what is inside can.
///
/// # Enums
///
/// An enum with data is embedded too, so that a field which holds it has `#[embed]`. Each variant has a method that asks
/// for it, and one that takes a closure about what is in it:
///
/// | variant | asked for by | and what is in it |
/// |---|---|---|
/// | `Card { number: String }` | `p.payment().is_card()` | `p.payment().card(\|c\| c.number().eq("1"))` |
/// | `Invoice(InvoiceData)` | `p.payment().is_invoice()` | `p.payment().invoice(\|i\| i.due().lt(now))` |
/// | `Transfer(String, i64)` | `p.payment().is_transfer()` | `p.payment().transfer(\|from, amount\| amount.gt(5))` |
/// | `Cash` | `p.payment().is_cash()` | |
///
/// The trait of the same name has an example. The condition holds for values that *are* of the variant, and in an array
/// for one element: `p.payments().any(|x| x.card(|c| …))`. In an update the closure names a field, which is written only
/// where the value is of the variant. A whole value is compared and set as of any type.
///
/// Each of serde's tagged representations is understood: none said (`{"Card": {…}}`), `tag`, and `tag` with `content`; so
/// are `rename`, `rename_all`, `rename_all_fields`, `skip` and `other`
/// (any variant that has no name here). In an internally tagged enum a newtype variant holds an embedded struct. The
/// fields of variants have `#[embed]` and `#[reference]` as those of structs; in a tuple, a struct or a map needs none, an
/// array or a `Ref` does: `Tags(#[embed(max = 20)] Vec<String>)`.
///
/// An enum of unit variants alone is one value, and its field has no attribute: `p.state().eq(State::Open)`. It sorts by
/// its stored names. So is an enum that is `untagged`: nothing in a document tells its variants apart.
///
/// # Both
///
/// A struct may hold itself (`replies: Vec<Comment>`); two structs that hold each other are not supported yet.
///
/// `#[embedded(of = Comment)]` says that the struct has some fields of a model, each as it is there: what `#[latest(…)]` keeps of documents.
///
/// `#[embedded(validate)]` makes the rules of a struct's fields known one by one, for updates of them: see `Document`.
///
/// `#[embedded(crate = mapper)]` says the path of the crate `odm`, if it has another name.
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
        latest,
        computed
    )
)]
pub fn embedded(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::embedded::expand,
        fallback::embedded,
    )
}

/// Makes a struct without parameters the schema of a database: `#[schema(models(Product, Part))]`.
///
/// It is an error if a model refers to one that is not there, if two are on one collection, and if one is there twice.
///
/// `#[schema(crate = mapper)]` says the path of the crate `odm`, if it has another name.
#[proc_macro_derive(Schema, attributes(schema))]
pub fn schema(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::schema::expand,
        fallback::schema,
    )
}

/// Makes a struct hold some fields of a model's documents, or of an embedded struct: `#[projection(of = Product)]`.
///
/// It derives serde's `Deserialize`, and each field has the name, the stored name and the type that it has there; in the
/// place of an embedded struct, and of an option, an array or a map of one, may stand a projection of that struct.
///
/// `#[projection(crate = mapper)]` says the path of the crate `odm`, if it has another name.
#[proc_macro_derive(Projection, attributes(projection))]
pub fn projection(input: TokenStream) -> TokenStream {
    run(
        parse_macro_input!(input as DeriveInput),
        expand::projection::expand,
        fallback::projection,
    )
}

/// What an expansion gives: code, or that there were errors.
type Expand = fn(&mut ctxt::Ctxt, &DeriveInput) -> Option<proc_macro2::TokenStream>;
type Fallback = fn(&DeriveInput) -> proc_macro2::TokenStream;

/// On an error the code is what could be made of the rest, or the fallback, so that uses of the type give no errors of
/// their own.
fn run(input: DeriveInput, expand: Expand, fallback: Fallback) -> TokenStream {
    let input = &self_type::write_out(input);
    let mut ctxt = ctxt::Ctxt::default();
    let expanded = expand(&mut ctxt, input);
    let code = expanded.unwrap_or_else(|| fallback(input));
    let errors = ctxt.into_errors();
    quote::quote!(#errors #code).into()
}
