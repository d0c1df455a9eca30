//! The histogram of the feature `metrics`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use odm::prelude::*;

#[derive(Debug, Clone, Serialize, Deserialize, Document)]
#[document(collection = "parts")]
struct Part {
    #[serde(rename = "_id")]
    id: i64,
}

#[derive(Schema)]
#[schema(models(Part))]
struct Shop;

/// The values of each histogram, by name and labels.
#[derive(Debug, Clone, Default)]
struct Histograms(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

struct Values(Histograms, String);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        let Self(Histograms(histograms), key) = self;
        let mut histograms = histograms.lock().unwrap();
        histograms.entry(key.clone()).or_default().push(value);
    }
}

impl Recorder for Histograms {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let labels = key
            .labels()
            .map(|label| format!(" {}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), labels.collect::<String>());
        Histogram::from_arc(Arc::new(Values(self.clone(), name)))
    }
}

#[test]
fn durations_go_to_a_histogram() {
    let histograms = Histograms::default();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    metrics::with_local_recorder(&histograms, || {
        runtime.block_on(async {
            let db = odm::Database::<Shop>::open("memory:").await.unwrap();
            db.insert(Part { id: 1 }).await.unwrap();
            db.insert(Part { id: 1 }).await.unwrap_err();
            db.get::<Part>(1).await.unwrap();
            db.find::<Part>().all().await.unwrap();
        });
    });
    let recorded = histograms.0.lock().unwrap();
    let durations = |operation: &str| {
        let labels = format!(
            "db.client.operation.duration db.system.name=odm db.operation.name={operation}"
        );
        recorded.get(&labels).map_or(0, |values| {
            assert!(values.iter().all(|seconds| (0.0..60.0).contains(seconds)));
            values.len()
        })
    };
    assert_eq!(durations("find db.collection.name=parts"), 2);
    assert_eq!(durations("insert db.collection.name=parts"), 1);
    let duplicate = "insert db.collection.name=parts error.type=DuplicateKey";
    assert_eq!(durations(duplicate), 1);
}
