package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// EventStream is a stream of events. The caller closes it.
type EventStream struct{ frames *Frames }

// Events opens the stream of what changes.
func (c *Client) Events(ctx context.Context, e EventOptions, o *QueryOptions) (*EventStream, error) {
	r := newCall(http.MethodGet, "event", "stream").set("index", fmt.Sprint(e.Index)).read(o)
	for topic, keys := range e.Topics {
		for _, key := range keys {
			r.query.Add("topic", topic+":"+key)
		}
	}
	f, err := c.frames(ctx, r)
	if err != nil {
		return nil, err
	}
	return &EventStream{f}, nil
}

// Next returns the next events. Why a stream ended that the servers ended is in the error.
func (s *EventStream) Next() (*Events, error) {
	for {
		out := &Events{}
		switch err := s.frames.dec.Decode(out); {
		case err != nil:
			return nil, fmt.Errorf("the stream broke off: %w", err)
		case out.Error != "":
			return nil, errors.New(out.Error)
		case len(out.Events) > 0:
			return out, nil
		}
	}
}

// Close ends the stream.
func (s *EventStream) Close() error { return s.frames.Close() }
