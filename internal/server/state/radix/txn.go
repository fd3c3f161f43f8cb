package radix

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// edit is who made a node. Each transaction has its own, and another one after each tree that it has shown.
type edit struct{ _ byte }

// Txn makes another tree of one. What it has made itself and shown to nobody it changes in place.
type Txn struct {
	root *node
	by   *edit
	gone []*signal // of what is not in the new tree any more
}

// Txn begins to make another tree of this one, which stays as it is.
func (t Tree) Txn() *Txn { return &Txn{root: t.root, by: &edit{}} }

// Newest is the tree as it is now, and until it is written to again.
func (x *Txn) Newest() Tree { return Tree{x.root} }

// Tree is what the transaction has made so far. It stays as it is.
func (x *Txn) Tree() Tree {
	x.by = &edit{}
	return Tree{x.root}
}

// atOnce is how many objects a reader of a tree that is being made is handed as they are. For more the tree is kept as
// it is, and what is written next copies it again.
const atOnce = 32

// BelowNow is Below of a tree that is being made, as it is now: what is written afterwards does not disturb it.
func BelowNow[T any](x *Txn, prefix string) iter.Seq[*T] {
	n, _ := x.Newest().below(prefix)
	if n == nil {
		return nothing[T]
	}
	var few []*T
	all := true
	n.walk(func(o any) bool {
		if all = len(few) < atOnce; all {
			few = append(few, o.(*T))
		}
		return all
	})
	if all {
		return slices.Values(few)
	}
	return Below[T](x.Tree(), prefix)
}

func nothing[T any](func(*T) bool) {}

// Notify tells those who watch what is another in the tree that was made. It is called when everybody can see that.
func (x *Txn) Notify() {
	for _, s := range x.gone {
		s.give()
	}
	x.gone = nil
}

// own returns a node that may be changed in the place of one.
func (x *Txn) own(n *node) *node {
	if n.by == x.by {
		return n
	}
	x.gone = append(x.gone, &n.signal)
	own := &node{by: x.by, prefix: n.prefix, leaf: n.leaf}
	if len(n.edges) > 0 {
		own.edges = append(make([]edge, 0, len(n.edges)+1), n.edges...) // mostly it is to get one more
	}
	return own
}

// Put files an object under a key, in the place of what was there.
func (x *Txn) Put(key string, object any) { x.PutUnder("", key, object) }

// PutUnder is Put with a key in two parts. What is filed in many trees under one key takes its memory once: each tree
// keeps what it needs of it, and the first part only as far as nothing is filed under it yet.
func (x *Txn) PutUnder(first, key string, object any) {
	x.root = x.own(x.root)
	n := x.root
	for first != "" || key != "" {
		at, there := n.find(cmp.Or(first, key)[0])
		if !there {
			to := &only{node: node{by: x.by, prefix: first + key}, leaf: leaf{object: object}}
			to.node.leaf = &to.leaf
			n.edges = slices.Insert(n.edges, at, edge{to.node.prefix[0], &to.node})
			return
		}
		child := x.own(n.edges[at].to)
		common := shared(first, child.prefix)
		if common == len(first) {
			common += shared(key, child.prefix[common:])
		}
		if common < len(child.prefix) {
			upper := &fork{node: node{by: x.by, prefix: child.prefix[:common]}}
			upper.node.edges = append(upper.edges[:0], edge{child.prefix[common], child})
			child.prefix = child.prefix[common:]
			child = &upper.node
		}
		n.edges[at].to = child
		n = child
		of := min(common, len(first))
		first, key = first[of:], key[common-of:]
	}
	x.abandon(n.leaf)
	n.leaf = &leaf{object: object}
}

// only is a node for one leaf, in one piece of memory: most nodes that are made are.
type only struct {
	node node
	leaf leaf
}

// fork is a node with room for two edges, in one piece of memory: that is how trees grow.
type fork struct {
	node  node
	edges [2]edge
}

// abandon notes that a leaf is not there any more.
func (x *Txn) abandon(l *leaf) {
	if l != nil {
		x.gone = append(x.gone, &l.signal)
	}
}

// shared is how many bytes two texts begin with alike.
func shared(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Delete removes what is filed under a key, and tells whether there was something.
func (x *Txn) Delete(key string) bool {
	if x.root.get(key) == nil {
		return false
	}
	x.root = x.own(x.root)
	x.remove(x.root, key)
	return true
}

// remove takes what is filed under what is left of a key from below a node.
func (x *Txn) remove(n *node, rest string) {
	if rest == "" {
		x.abandon(n.leaf)
		n.leaf = nil
		return
	}
	at, _ := n.find(rest[0])
	child := x.own(n.edges[at].to)
	n.edges[at].to = child
	x.remove(child, strings.TrimPrefix(rest, child.prefix))
	switch {
	case child.leaf != nil:
	case len(child.edges) == 0:
		n.edges = slices.Delete(n.edges, at, at+1)
	case len(child.edges) == 1:
		only := x.own(child.edges[0].to)
		only.prefix = child.prefix + only.prefix
		n.edges[at].to = only
	}
}
