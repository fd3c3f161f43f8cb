package controllers

import "sync"

// Open are the keys that have something to do, or that a pass looks at: what a change of nodes or of their streams is
// looked at again for. The zero value is empty.
type Open[K comparable] struct {
	mu   sync.Mutex
	keys map[K]bool
}

// Put adds a key.
func (o *Open[K]) Put(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[K]bool{}
	}
	o.keys[k] = true
}

// Drop removes a key.
func (o *Open[K]) Drop(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.keys, k)
}

// Each hands every key to fn.
func (o *Open[K]) Each(fn func(K)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.keys {
		fn(k)
	}
}
