package events

import (
	"encoding/json"
	"strconv"
	"sync"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/wire"
)

// mostForms bounds what is kept of events' public forms, in bytes of them and of what they were made from.
const mostForms = 16 << 20

// Forms are the lines of events as clients read them, each made once for all who read it at about the same time. None
// is kept while nobody reads.
type Forms struct {
	mu      sync.Mutex
	readers int
	made    map[formKey]*form
	order   []formKey // the oldest first
	bytes   int
	most    int
}

// NewForms returns forms that keep nothing yet.
func NewForms() *Forms { return &Forms{made: map[formKey]*form{}, most: mostForms} }

// join adds a reader until leave is called.
func (f *Forms) join() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.readers--; f.readers == 0 {
			f.made = map[formKey]*form{}
			f.order, f.bytes = nil, 0
		}
	}
}

// formKey is all that a form is made from: servers tell of one object in the same words, or in others.
type formKey struct {
	index              uint64
	topic, called, key string
	namespace          ids.Namespace
	removed            bool
	object             string
}

type form struct {
	once sync.Once
	data json.RawMessage
	size int // what is counted of it; Forms' lock guards that
}

// of is the form of an event. Who asks first makes it, and others wait for that.
func (f *Forms) of(index uint64, e *wire.Event) json.RawMessage {
	k := formKey{
		index:     index,
		topic:     e.Topic,
		called:    e.Type,
		key:       e.Key,
		namespace: e.Namespace,
		removed:   e.Removed,
		object:    string(e.Object),
	}
	one := f.get(k)
	one.once.Do(func() {
		one.data = encoded(index, e)
		f.count(k, one, len(one.data))
	})
	return one.data
}

func (f *Forms) get(k formKey) *form {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.made[k]
	if one == nil {
		one = &form{size: len(k.object)}
		f.made[k] = one
		f.order = append(f.order, k)
		f.bytes += one.size
	}
	return one
}

// count adds the bytes of what was made, unless it was forgotten meanwhile, and forgets the oldest beyond the bound.
func (f *Forms) count(k formKey, one *form, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made[k] == one {
		one.size += bytes
		f.bytes += bytes
	}
	for f.bytes > f.most && len(f.order) > 0 {
		oldest := f.order[0]
		f.bytes -= f.made[oldest].size
		delete(f.made, oldest)
		f.order = f.order[1:]
	}
}

// encoded makes the form of an event; what cannot be said in JSON is null.
func encoded(index uint64, e *wire.Event) json.RawMessage {
	data, err := json.Marshal(&api.Event{
		Topic:      e.Topic,
		Type:       e.Type,
		Key:        e.Key,
		Namespace:  string(e.Namespace),
		FilterKeys: e.Keys,
		Index:      index,
		Payload:    object(e),
	})
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// batch is the line of a batch, as api.Events is encoded: put together from what is made already.
func (f *Forms) batch(b *wire.EventBatch) []byte {
	out := []byte("{")
	if b.Index > 0 {
		out = strconv.AppendUint(append(out, `"Index":`...), b.Index, 10)
	}
	for i, e := range b.Events {
		before := byte(',')
		if i == 0 {
			if b.Index > 0 {
				out = append(out, ',')
			}
			out, before = append(out, `"Events":`...), '['
		}
		out = append(append(out, before), f.of(b.Index, e)...)
	}
	if len(b.Events) > 0 {
		out = append(out, ']')
	}
	return append(out, '}')
}
