// Package radix owns the trees in which the state files its objects: ordered by their keys, persistent, so that who
// reads one is never disturbed by who writes the next, and watchable, so that who has read a part of one hears when
// that part is another. Only package state imports it.
package radix

import (
	"iter"
	"strings"
)

// Tree is a tree as it was when it was committed. The zero value is not one; New makes an empty one.
type Tree struct{ root *node }

// New returns an empty tree.
func New() Tree { return Tree{root: &node{}} }

// node holds what is filed under one beginning of keys.
type node struct {
	by     *edit // the transaction that made it, and may still change it
	prefix string
	leaf   *leaf // what is filed under exactly this
	edges  []edge
	signal signal
}

// edge leads to what goes on with a byte, which the prefix of the node there begins with.
type edge struct {
	label byte
	to    *node
}

type leaf struct {
	object any
	signal signal
}

// find returns where the edge with a label is, or would be.
func (n *node) find(label byte) (at int, there bool) {
	for at < len(n.edges) && n.edges[at].label < label {
		at++
	}
	return at, at < len(n.edges) && n.edges[at].label == label
}

// Get returns what is filed under a key, or nil.
func (t Tree) Get(key string) any {
	if l := t.root.get(key); l != nil {
		return l.object
	}
	return nil
}

func (n *node) get(key string) *leaf {
	for rest := key; rest != ""; {
		at, there := n.find(rest[0])
		if !there {
			return nil
		}
		n = n.edges[at].to
		after, goesOn := strings.CutPrefix(rest, n.prefix)
		if !goesOn {
			return nil
		}
		rest = after
	}
	return n.leaf
}

// Watch is closed when something else is filed under a key than in this tree.
func (t Tree) Watch(key string) <-chan struct{} {
	n := t.root
	for rest := key; rest != ""; {
		at, there := n.find(rest[0])
		if !there {
			return n.signal.watch()
		}
		n = n.edges[at].to
		after, goesOn := strings.CutPrefix(rest, n.prefix)
		if !goesOn {
			return n.signal.watch()
		}
		rest = after
	}
	if n.leaf != nil {
		return n.leaf.signal.watch()
	}
	return n.signal.watch()
}

// below is the node that holds all keys with a prefix, and the nearest one to it, which changes when there is one.
func (t Tree) below(prefix string) (n, nearest *node) {
	n = t.root
	for rest := prefix; rest != ""; {
		at, there := n.find(rest[0])
		if !there {
			return nil, n
		}
		n = n.edges[at].to
		switch after, goesOn := strings.CutPrefix(rest, n.prefix); {
		case goesOn:
			rest = after
		case strings.HasPrefix(n.prefix, rest):
			return n, n
		default:
			return nil, n
		}
	}
	return n, n
}

// WatchPrefix is closed when anything else is filed under keys with a prefix than in this tree.
func (t Tree) WatchPrefix(prefix string) <-chan struct{} {
	_, nearest := t.below(prefix)
	return nearest.signal.watch()
}

// Below yields what is filed under keys with a prefix, in their order.
func Below[T any](t Tree, prefix string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		if n, _ := t.below(prefix); n != nil {
			n.walk(func(o any) bool { return yield(o.(*T)) })
		}
	}
}

func (n *node) walk(yield func(any) bool) bool {
	if n.leaf != nil && !yield(n.leaf.object) {
		return false
	}
	for _, e := range n.edges {
		if !e.to.walk(yield) {
			return false
		}
	}
	return true
}

// From yields what is filed under keys that are not below one, in their order. It is known what they are.
func From[T any](t Tree, key string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		t.root.from(key, func(o any) bool { return yield(o.(*T)) })
	}
}

// from is walk of what is not below what is left of a key.
func (n *node) from(key string, yield func(any) bool) bool {
	rest, goesOn := strings.CutPrefix(key, n.prefix)
	switch {
	case !goesOn && n.prefix < key:
		return true
	case !goesOn || rest == "":
		return n.walk(yield)
	}
	for _, e := range n.edges {
		switch {
		case e.label < rest[0]:
		case e.label > rest[0]:
			if !e.to.walk(yield) {
				return false
			}
		case !e.to.from(rest, yield):
			return false
		}
	}
	return true
}
