// Package events owns the stream of events as clients of this API read it: what a request asks for, and lines of JSON.
// Only httpapi imports it.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/wire"
)

// patience is how long a client may not take what it is sent before it is cut.
const patience = 30 * time.Second

// Asked reads what a request asks for: topic=TOPIC or topic=TOPIC:KEY, as often as it likes, and index.
func Asked(q url.Values, ns ids.Namespace) (*wire.EventRequest, error) {
	out := &wire.EventRequest{Namespace: ns, Topics: map[string][]string{}}
	for _, text := range q["topic"] {
		topic, key, with := strings.Cut(text, ":")
		if !with || key == "" {
			key = wire.TopicAll
		}
		if topic == "" {
			return nil, calls.BadRequest(
				fmt.Sprintf("Invalid key value pair for topic %q: it is TOPIC or TOPIC:KEY", text))
		}
		out.Topics[topic] = append(out.Topics[topic], key)
	}
	if text := q.Get("index"); text != "" {
		index, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, calls.BadRequest(fmt.Sprintf("Unable to parse index: %q is no whole number", text))
		}
		out.Index = index
	}
	return out, nil
}

// Stream answers with what a stream brings, a line for each entry of the log, until one of them ends. An error came
// before the first byte; what ends a stream later is its last line, and the reply is cut after it, so that nobody takes
// that for the end of the events.
func (f *Forms) Stream(ctx context.Context, w http.ResponseWriter, servers wire.Conn, req *wire.EventRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer f.join()()
	stream, err := wire.EventStream.Open(ctx, servers, req)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	for b := first; err == nil; b, err = stream.Recv() {
		if line(w, f.batch(b)) != nil {
			return nil // the client is gone, or takes nothing
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream")
	}
	err = calls.Ended(ctx, err)
	if last, merr := json.Marshal(&api.Events{Error: err.Error()}); merr == nil {
		_ = line(w, last) // whom that does not reach hears of the cut
	}
	panic(http.ErrAbortHandler)
}

// line writes one line at once.
func line(w http.ResponseWriter, data []byte) error {
	c := http.NewResponseController(w)
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return err
	}
	return c.Flush()
}

// object is the payload of an event. What this program cannot read, because the server is newer, is null.
func object(e *wire.Event) map[string]json.RawMessage {
	var o wire.EventObject
	if err := wire.Decode(e.Object, &o); err != nil {
		return nil
	}
	name, public := payload(&o)
	out, err := json.Marshal(public)
	if err != nil {
		return nil
	}
	members := map[string]json.RawMessage{name: out}
	if e.Removed {
		members["Deleted"] = json.RawMessage("true")
	}
	return members
}
