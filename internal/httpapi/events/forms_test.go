package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/model/eval"
	"berth/internal/wire"
)

// event is one of an evaluation with a text of some length.
func event(t testing.TB, id, text string) *wire.Event {
	t.Helper()
	data, err := wire.Encode(&wire.EventObject{Eval: &eval.Eval{ID: ids.Eval(id), StatusDescription: text}})
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Event{
		Topic:     wire.TopicEval,
		Type:      "EvaluationUpdated",
		Key:       id,
		Keys:      []string{"j"},
		Namespace: "default",
		Object:    data,
	}
}

// again is an event as another reader receives it: equal, and nothing of it is shared.
func again(e *wire.Event) *wire.Event {
	c := *e
	c.Object = []byte(string(e.Object))
	return &c
}

// Given many readers of one event, when they read it at one time, then its public form is made once, and all have that.
func TestAnEventsFormIsMadeOnceForAllReaders(t *testing.T) {
	f := NewForms()
	e := event(t, "e", "x")
	first := f.of(7, e)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got := f.of(7, again(e)); &got[0] != &first[0] {
				t.Errorf("another one was made: %s", got)
			}
		})
	}
	wg.Wait()
}

// Given batches with events and without, when they become lines, then each is what the public type is encoded as, and
// reads as it; what differs in anything that shows has a form of its own.
func TestALineIsThePublicFormOfABatch(t *testing.T) {
	f := NewForms()
	one, two := event(t, "e", "<a>"), event(t, "f", "b")
	removed, other := again(one), again(one)
	removed.Removed = true
	other.Type = "JobRegistered"
	for _, b := range []*wire.EventBatch{
		{},
		{Index: 3},
		{Index: 4, Events: []*wire.Event{one}},
		{Index: 5, Events: []*wire.Event{one, two, removed, other}},
	} {
		want := &api.Events{Index: b.Index}
		for _, e := range b.Events {
			want.Events = append(want.Events, api.Event{
				Topic:      e.Topic,
				Type:       e.Type,
				Key:        e.Key,
				Namespace:  string(e.Namespace),
				FilterKeys: e.Keys,
				Index:      b.Index,
				Payload:    object(e),
			})
		}
		line, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // made, and found
			if got := f.batch(b); string(got) != string(line) {
				t.Errorf("the line is\n%s, want\n%s", got, line)
			}
		}
	}
}

// Given more events than are kept, when they are read, by several at once, then the oldest are forgotten, what is
// counted is what is kept, and each reader gets the event that he asked for.
func TestFormsAreBounded(t *testing.T) {
	f := NewForms()
	f.most = 20_000
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			for i := range 200 {
				id := fmt.Sprintf("e%d", (i+reader*50)%200)
				if got := string(f.of(1, event(t, id, strings.Repeat("x", 500)))); !strings.Contains(got, `"`+id+`"`) {
					t.Errorf("of %s it says %s", id, got)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, one := range f.made {
		sum += one.size
	}
	if sum != f.bytes || f.bytes > f.most || len(f.made) != len(f.order) || len(f.made) == 0 {
		t.Errorf("%d bytes are counted of %d, %d are kept in an order of %d", f.bytes, sum, len(f.made), len(f.order))
	}
}

// Given readers of events, when the last one leaves, then no form is kept, nor before.
func TestNoFormIsKeptWithoutAReader(t *testing.T) {
	f := NewForms()
	first, second := f.join(), f.join()
	one := f.of(1, event(t, "e", "x"))
	first()
	if got := f.of(1, event(t, "e", "x")); &got[0] != &one[0] || f.bytes == 0 {
		t.Errorf("it was made anew while somebody read; %d bytes are kept", f.bytes)
	}
	second()
	if len(f.made) > 0 || len(f.order) > 0 || f.bytes != 0 {
		t.Errorf("%d forms are kept for nobody, in an order of %d, of %d bytes", len(f.made), len(f.order), f.bytes)
	}
	defer f.join()()
	if got := string(f.of(1, event(t, "e", "x"))); got != string(one) {
		t.Errorf("made anew it is %s", got)
	}
}

// closed opens no stream, and tells how many readers there are when it is asked for one.
type closed struct {
	grpc.ClientConnInterface
	f       *Forms
	readers int
}

func (c *closed) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.readers = c.f.readers
	return nil, errors.New("no servers")
}

// Given a stream, then it counts as a reader, and when it has ended not any more.
func TestAStreamIsAReaderUntilItEnds(t *testing.T) {
	f := NewForms()
	conn := &closed{f: f}
	if err := f.Stream(t.Context(), httptest.NewRecorder(), conn, &wire.EventRequest{}); err == nil {
		t.Fatal("it was opened")
	}
	if conn.readers != 1 || f.readers != 0 {
		t.Errorf("%d readers during the stream, %d after it", conn.readers, f.readers)
	}
}
