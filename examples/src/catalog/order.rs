//! The insert order of packages: dependencies first.
//!
//! Some packages depend on each other in a cycle, for example `libc6` and `libgcc-s1`.
//! The first package of a cycle gets the reference that closes the cycle after all packages are inserted.

use std::collections::HashMap;

use odm::prelude::*;
use petgraph::{
    graph::{DiGraph, NodeIndex},
    visit::DfsPostOrder,
};

use super::{
    index::Entry,
    model::{NewPackage, Package},
};

/// Packages in insert order.
#[derive(Debug, Default)]
pub struct Ordered {
    /// Packages in order: each depends on earlier packages only.
    pub packages: Vec<NewPackage>,
    /// Packages in a cycle, without the later dependencies in `packages`, each with all dependencies.
    pub circles: Vec<(String, Vec<Ref<Package>>)>,
}

/// Orders the packages of a whole index, and separates dependencies on packages from names without a package.
#[must_use]
pub fn order(entries: Vec<Entry>) -> Ordered {
    let (graph, nodes) = dependencies(&entries);
    let order = dependencies_first(&graph);
    let mut place = vec![0; order.len()];
    for (at, node) in order.iter().enumerate() {
        place[node.index()] = at;
    }

    let mut ordered = Ordered::default();
    let mut entries: Vec<_> = entries.into_iter().map(Some).collect();
    for (at, node) in order.iter().enumerate() {
        let Some(Entry {
            mut package, needs, ..
        }) = entries[node.index()].take()
        else {
            continue;
        };
        let mut depends = Vec::new();
        for name in needs {
            let Some(dependency) = nodes.get(&name) else {
                package.missing.push(name);
                continue;
            };
            let reference = Ref::new(name);
            if place[dependency.index()] < at {
                package.depends.push(reference.clone());
            }
            depends.push(reference);
        }
        if depends.len() > package.depends.len() {
            ordered.circles.push((package.id.clone(), depends));
        }
        ordered.packages.push(package);
    }
    ordered
}

/// Returns a graph with a node for each entry, by position, and an edge to each dependency.
fn dependencies(entries: &[Entry]) -> (DiGraph<(), ()>, HashMap<String, NodeIndex>) {
    let mut graph = DiGraph::new();
    let nodes = entries
        .iter()
        .map(|entry| (entry.package.id.clone(), graph.add_node(())));
    let nodes: HashMap<_, _> = nodes.collect();
    for (entry, node) in entries.iter().zip(graph.node_indices()) {
        for dependency in entry.needs.iter().filter_map(|name| nodes.get(name)) {
            graph.add_edge(node, *dependency, ());
        }
    }
    (graph, nodes)
}

/// Returns all nodes, each after the targets of its edges. An edge that closes a cycle does not count.
fn dependencies_first(graph: &DiGraph<(), ()>) -> Vec<NodeIndex> {
    let mut order = Vec::with_capacity(graph.node_count());
    let mut search = DfsPostOrder::empty(graph);
    for node in graph.node_indices() {
        search.move_to(node);
        while let Some(node) = search.next(graph) {
            order.push(node);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::index::Index;

    /// Orders packages, given as pairs of a name and the dependencies.
    fn ordered(packages: &[(&str, &str)]) -> Ordered {
        let stanzas = packages.iter().map(|(name, depends)| {
            format!("Package: {name}\nDepends: {depends}\nVersion: 1\nMaintainer: Jane\nArchitecture: all\nSection: misc\nSize: 1\n\n")
        });
        let text: String = stanzas.collect();
        let entries = Index::new(text.as_bytes())
            .unwrap()
            .collect::<Result<_, _>>();
        order(entries.unwrap())
    }

    fn names(packages: &[NewPackage]) -> Vec<&str> {
        packages.iter().map(|package| package.id.as_str()).collect()
    }

    #[test]
    fn dependencies_come_first() {
        let ordered = ordered(&[
            ("a", "b, c, mail-server"),
            ("b", "c"),
            ("c", ""),
            ("d", "a"),
        ]);
        assert_eq!(names(&ordered.packages), ["c", "b", "a", "d"]);
        let a = &ordered.packages[2];
        assert_eq!(a.depends, ["b", "c"].map(Ref::new));
        assert_eq!(a.missing, ["mail-server"]);
        assert!(ordered.circles.is_empty());
    }

    #[test]
    fn a_cycle_is_closed_after_all_inserts() {
        let ordered = ordered(&[("a", "d, b"), ("b", "c"), ("c", "d, a"), ("d", "d")]);
        assert_eq!(names(&ordered.packages), ["d", "c", "b", "a"]);
        assert_eq!(ordered.packages[1].depends, [Ref::new("d")]);
        let all = [
            ("d", vec![Ref::new("d")]),
            ("c", vec![Ref::new("d"), Ref::new("a")]),
        ];
        assert_eq!(
            ordered.circles,
            all.map(|(id, depends)| (id.to_owned(), depends))
        );
    }
}
