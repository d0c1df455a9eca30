//! Every way to reach documents of a model, tried on a hidden document: a deleted document, or a document of a different tenant.

/// Tries every read and write on the hidden note 9.
///
/// The session sees note 1. Notes 1 and 9 refer to each other. `new` returns the insert struct of a `Note` for an `_id`, and
/// `edited` is note 9, read while the note was visible.
macro_rules! nothing_reaches_the_note_9 {
    ($session:expr, $new:expr, $edited:expr) => {{
        use std::time::Duration;

        use futures_util::StreamExt;
        use odm::{ErrorKind, Filter, backend::operation::ReadPreference, prelude::*};

        #[derive(Debug, PartialEq, Deserialize, Projection)]
        #[projection(of = Note)]
        struct Votes {
            votes: i64,
        }

        let (session, new, mut edited) = ($session, $new, $edited);
        let expect_not_found = |error: odm::Error| assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let expect_duplicate = |error: odm::Error| {
            assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
        };
        let find = || session.find::<Note>();
        let nine = || find().filter(|n| n.id().eq(9));

        // Reads by id.
        expect_not_found(session.get::<Note>(9).await.unwrap_err());
        assert!(session.find_by_id::<Note>(9).await.unwrap().is_none());
        let many = session.get_many::<Note>([1_i64, 9]).await.unwrap();
        assert_eq!((many.loaded().count(), many.missing().count()), (1, 1));
        expect_not_found(session.edit::<Note>(9).await.unwrap_err());
        let nine_by_id = || Ref::<Note>::new(9_i64);
        expect_not_found(session.load((nine_by_id(),)).await.unwrap_err());
        let limited = session.max_time(Duration::from_secs(60));
        expect_not_found(limited.get::<Note>(9).await.unwrap_err());
        let both = [Ref::new(1_i64), nine_by_id()];
        let (one, both) = session.load((Ref::<Note>::new(1_i64), both)).await.unwrap();
        assert_eq!((one.id, both.loaded().count(), both.missing().count()), (1, 1, 1));

        // Reads by a query.
        expect_not_found(nine().one().await.unwrap_err());
        assert!(nine().first().await.unwrap().is_none());
        let all = find().sort(|n| n.votes().desc()).limit(9).all().await.unwrap();
        assert_eq!(all.iter().map(|note| note.id).collect::<Vec<_>>(), [1]);
        assert_eq!(find().current().all().await.unwrap().len(), 1);
        let either = find().filter(|n| n.id().eq(9) | n.votes().gt(0) | !n.votes().eq(7));
        assert_eq!(either.all().await.unwrap().len(), 1);
        assert_eq!(find().stream().collect::<Vec<_>>().await.len(), 1);
        assert_eq!(find().count().await.unwrap(), 1);
        assert_eq!(nine().count().await.unwrap(), 0);
        assert!(!nine().exists().await.unwrap());
        assert_eq!(find().sample(9).await.unwrap().len(), 1);
        let limited = nine().max_time(Duration::from_secs(60));
        assert!(limited.first().await.unwrap().is_none());
        let hinted = nine().hint("_id_").comment("a hidden note");
        assert!(hinted.first().await.unwrap().is_none());
        // A transaction allows no preference.
        let preferred = nine().read_preference(ReadPreference::Nearest);
        assert!(!matches!(preferred.first().await, Ok(Some(_))));
        assert_eq!(find().explain().await.unwrap().returned, 1);
        let votes = find().select::<Votes>().all().await.unwrap();
        assert_eq!(votes, [Votes { votes: 1 }]);

        // Reads of pages.
        let page = find().sort(|n| n.votes().desc()).page(1).await.unwrap();
        assert_eq!((page.items.len(), page.next.is_some()), (1, false));
        assert_eq!(find().page(5).explain().await.unwrap().returned, 1);
        assert_eq!(find().page(5).with_total().await.unwrap().total, Some(1));
        let page = find().page(1);
        session.insert(new(2)).await.unwrap();
        let first = page.clone().await.unwrap();
        let second = page.clone().after(first.next).await.unwrap();
        assert_eq!((second.items[0].id, second.next.is_some()), (2, false));
        let before = page.before(second.previous).await.unwrap();
        assert_eq!(before.items[0].id, 1);
        session.delete::<Note>(2).await.unwrap();

        // Aggregates and pipelines.
        assert_eq!(find().sum(|n| n.votes()).await.unwrap(), 1);
        assert_eq!(find().avg(|n| n.votes()).await.unwrap(), Some(1.0));
        assert_eq!(find().min(|n| n.votes()).await.unwrap(), Some(1));
        assert_eq!(find().max(|n| n.votes()).await.unwrap(), Some(1));
        assert_eq!(find().distinct(|n| n.votes()).await.unwrap(), [1]);
        let groups = find().group_by(|n| n.votes()).select(|g| g.count());
        assert_eq!(groups.all().await.unwrap(), [(1, 1)]);
        let groups = find().group_by(|n| n.votes()).select(|g| g.count());
        let groups = groups.having(|count| count.gt(1)).all();
        assert_eq!(groups.await.unwrap(), []);
        let rows = find().pipeline([]).all_as::<odm::bson::Document>();
        assert_eq!(rows.await.unwrap().len(), 1);
        let rows = find().pipeline([]).stream_as::<odm::bson::Document>();
        assert_eq!(rows.collect::<Vec<_>>().await.len(), 1);
        let nested = odm::bson::doc! { "from": "notes", "as": "all", "pipeline": [] };
        for stage in [
            odm::bson::doc! { "$lookup": nested.clone() },
            odm::bson::doc! { "$facet": { "a": [{ "$lookup": nested }] } },
            odm::bson::doc! { "$unionWith": "notes" },
            odm::bson::doc! { "$unionWith": { "coll": "notes", "pipeline": [] } },
            odm::bson::doc! { "$unionWith": { "coll": "others", "pipeline": [{ "$unionWith": "notes" }] } },
            odm::bson::doc! { "$graphLookup": {
                "from": "notes", "startWith": 9, "connectFromField": "like", "connectToField": "_id", "as": "all",
            } },
        ] {
            let rows = find().pipeline([stage]).all_as::<odm::bson::Document>();
            assert_eq!(rows.await.unwrap_err().kind(), ErrorKind::Unsupported);
        }

        // Joins.
        let (_, like) = &find().with(|n| n.like()).one().await.unwrap();
        assert!(like.as_ref().unwrap().loaded().is_none());
        let (_, like) = &find().with(|n| n.like().with(|m| m.like())).one().await.unwrap();
        assert!(like.as_ref().unwrap().loaded().is_none());
        let liked = || Note::by(|n| n.like());
        let (_, by) = find().with_children(liked()).one().await.unwrap();
        assert!(by.is_empty());
        let limited = liked().filter(|n| n.votes().gt(0)).sort(|n| n.votes().desc()).limit(3);
        let (_, by) = find().with_children(limited.with(|n| n.like())).one().await.unwrap();
        assert!(by.is_empty());

        // Conditions on related documents: note 1 refers to note 9, and note 9 to note 1.
        let liking = |condition: Filter<Note>| find().filter(|_| condition).count();
        let fields = Note::fields;
        assert_eq!(liking(fields().like().matches(|_| Filter::all())).await.unwrap(), 0);
        assert_eq!(liking(fields().like().matches(|n| n.id().eq(9))).await.unwrap(), 0);
        let twice = fields().like().matches(|n| n.like().matches(|n| n.id().eq(1)));
        assert_eq!(liking(twice).await.unwrap(), 0);
        assert_eq!(liking(liked().any(|_| Filter::all())).await.unwrap(), 0);
        assert_eq!(liking(liked().none(|n| n.votes().gte(0))).await.unwrap(), 1);
        assert_eq!(liking(liked().all(|n| n.votes().lt(0))).await.unwrap(), 1);
        let matching = find().filter(|n| n.like().matches(|_| Filter::all()));
        assert_eq!(matching.explain().await.unwrap().returned, 0);
        let liking_nine = |n: odm::Fields<Note>| n.like().matches(|n| n.id().eq(9));
        let updated = session.update_many::<Note>(liking_nine).inc(|n| n.votes(), 0);
        assert_eq!(updated.await.unwrap().matched, 0);
        assert_eq!(session.delete_many::<Note>(liking_nine).await.unwrap().deleted, 0);

        // Updates and saves.
        let update = || session.update::<Note>(9).inc(|n| n.votes(), 1);
        let when = || update().when(|n| n.votes().gt(0));
        expect_not_found(update().await.unwrap_err());
        assert!(!when().await.unwrap().is_applied());
        expect_not_found(update().returning_after().await.unwrap_err());
        expect_not_found(update().returning_before().select::<Votes>().await.unwrap_err());
        assert_eq!(when().returning_after().await.unwrap().applied(), None);
        let first = session.update_first::<Note>(|n| n.votes().gt(1)).sort(|n| n.votes().desc());
        let first = first.inc(|n| n.votes(), 1).await.unwrap();
        assert!(!first.is_applied());
        let many = session.update_many::<Note>(|n| n.votes().gt(1)).inc(|n| n.votes(), 1);
        assert_eq!(many.await.unwrap().matched, 0);
        expect_not_found(session.modify::<Note>(9, |n| n.votes += 1).await.unwrap_err());
        expect_not_found(session.try_modify::<Note>(9, |_| Ok(())).await.unwrap_err());
        edited.votes += 1;
        expect_not_found(session.save(&mut edited).await.unwrap_err());

        // Inserts and upserts.
        expect_duplicate(session.insert(new(9)).await.unwrap_err());
        expect_duplicate(session.insert_many([new(9)]).await.unwrap_err());
        expect_duplicate(update().or_insert(new(9)).await.unwrap_err());
        expect_duplicate(update().or_insert(new(9)).returning_after().await.unwrap_err());
        expect_duplicate(when().or_insert(new(9)).await.unwrap_err());
        expect_duplicate(session.upsert_by(|n| n.id(), new(9)).await.unwrap_err());

        // Deletes.
        let delete = || session.delete::<Note>(9);
        assert!(delete().dry_run().await.unwrap().deleted.is_empty());
        assert_eq!(delete().await.unwrap().deleted, 0);
        let condition = delete().when(|n| n.votes().gt(0)).await.unwrap();
        assert!(!condition.is_applied());
        assert!(!delete().returning().await.unwrap().is_applied());
        let first = || session.delete_first::<Note>(|n| n.votes().gt(1));
        assert!(!first().sort(|n| n.votes().desc()).await.unwrap().is_applied());
        assert!(!first().returning().select::<Votes>().await.unwrap().is_applied());
        let many = session.delete_many::<Note>(|n| Filter::all() & n.votes().gt(1));
        assert_eq!(many.await.unwrap().deleted, 0);

        // Bulk writes.
        for ordered in [true, false] {
            let bulk = session
                .bulk()
                .add(when())
                .add(session.update_many::<Note>(|n| n.id().eq(9)).inc(|n| n.votes(), 1))
                .add(delete())
                .add(delete().when(|n| n.votes().gt(0)))
                .add(session.delete_many::<Note>(|n| n.id().eq(9)))
                .add(update());
            let bulk = if ordered { bulk } else { bulk.unordered() };
            let report = bulk.await.unwrap();
            assert_eq!(
                (report.matched, report.modified, report.deleted),
                (0, 0, 0),
                "{report:?}"
            );
            let failed: Vec<_> = report.failures().map(|(at, error)| (at, error.kind())).collect();
            assert_eq!(failed, [(5, ErrorKind::NotFound)], "{report:?}");
            let report = session.bulk().add(session.insert(new(9))).await.unwrap();
            expect_duplicate(report.into_result().unwrap_err());
        }
    }};
}

pub(crate) use nothing_reaches_the_note_9;

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// Every method of a session or a query must be tried above.
    #[test]
    fn every_entry_is_tried() {
        let tried = include_str!("hidden_documents.rs");
        let odm = Path::new(env!("CARGO_MANIFEST_DIR")).join("../odm/src");
        // Methods that create a session, work with deleted documents, or change the form of all documents.
        let others = [
            "scope",
            "all_scopes",
            "restore",
            "restore_many",
            "with_deleted",
            "only_deleted",
            "permanently",
            "upgrade",
            // Methods for all tenants.
            "arrays",
            "check",
            // For models with a different kind of id: in `ids::load_respects_scopes_and_soft_deletes`.
            "under",
            "next",
            // For models with a tree: in `trees::a_tree_has_scopes_and_soft_deletes`.
            "subtree",
            // For models with snapshots: in `snapshots::drift_is_found`.
            "drift",
        ];
        let mut missing = Vec::new();
        for file in [
            "session.rs",
            "session/scope.rs",
            "session/soft_delete.rs",
            "action/find.rs",
            "action/find/calculate.rs",
            "action/find/drift.rs",
            "action/find/group.rs",
            "action/find/page.rs",
            "action/find/pipeline.rs",
            "action/find/id_prefix.rs",
            "action/delete.rs",
            "relation/children.rs",
        ] {
            let code = fs::read_to_string(odm.join(file)).expect(file);
            for line in code.lines() {
                let function = line
                    .strip_prefix("    pub fn ")
                    .or_else(|| line.strip_prefix("    pub async fn "));
                let Some(name) = function.and_then(|line| line.split(['<', '(']).next()) else {
                    continue;
                };
                let calls = [format!(".{name}("), format!(".{name}::<")];
                // `skip`, `for_update` and `without` compile for no model.
                let known = [
                    "expect_applied",
                    "applied",
                    "value",
                    "skip",
                    "for_update",
                    "without",
                ];
                if !calls.iter().any(|call| tried.contains(call))
                    && !others.contains(&name)
                    && !known.contains(&name)
                {
                    missing.push(format!("{file}: {name}"));
                }
            }
        }
        assert!(missing.is_empty(), "not tried: {missing:?}");
    }
}
