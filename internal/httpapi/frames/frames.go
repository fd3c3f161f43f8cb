// Package frames owns streamed replies: pieces of files and logs as concatenated JSON objects, each sent at once, with
// a sign of life when nothing happens; or as the plain bytes. Only httpapi imports it.
package frames

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"berth/api"
	"berth/internal/base/lifecycle"
	"berth/internal/wire"
)

// beat is how often an idle stream says that it lives.
const beat = time.Second

// Writer writes frames to a reply.
type Writer struct {
	w     http.ResponseWriter
	plain bool
	began bool
}

// NewWriter returns a writer that has sent nothing yet.
func NewWriter(w http.ResponseWriter, plain bool) *Writer { return &Writer{w: w, plain: plain} }

// Begin sends the header, once.
func (f *Writer) Begin() {
	if f.began {
		return
	}
	f.began = true
	typ := "application/json"
	if f.plain {
		typ = "text/plain; charset=utf-8"
	}
	f.w.Header().Set("Content-Type", typ)
	f.w.WriteHeader(http.StatusOK)
}

// Write sends a frame at once. An error means that the client is gone.
func (f *Writer) Write(fr *api.StreamFrame) error {
	f.Begin()
	data := fr.Data
	if !f.plain {
		var err error
		if data, err = json.Marshal(fr); err != nil {
			return err
		}
	}
	if _, err := f.w.Write(data); err != nil {
		return err
	}
	return http.NewResponseController(f.w).Flush()
}

// heartbeat keeps the connection alive; plain streams have none.
func (f *Writer) heartbeat() error {
	if f.plain {
		return nil
	}
	return f.Write(&api.StreamFrame{})
}

// Cut reports an error that came before the first byte; after it the reply can only be cut, so that nobody takes a part
// for the whole.
func (f *Writer) Cut(err error) error {
	if !f.began {
		return err
	}
	panic(http.ErrAbortHandler)
}

// Pump writes frames with heartbeats in between, until the stream or the client ends. An error came before the first
// byte was sent.
func Pump(ctx context.Context, f *Writer, stream *wire.Stream[wire.Empty, wire.StreamFrame]) error {
	frames := make(chan *wire.StreamFrame)
	var end error
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("receive", func() error {
		defer close(frames)
		for {
			fr, err := stream.Recv()
			if err != nil {
				end = err
				return nil
			}
			select {
			case frames <- fr:
			case <-gctx.Done():
				return nil
			}
		}
	})
	gone := f.relay(frames)
	g.Stop()
	if gone {
		return nil // the receiver ends with the request
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if end != nil && !errors.Is(end, io.EOF) { // also when the context has ended: the agent stops, if nobody is gone
		return f.Cut(end)
	}
	f.Begin()
	return nil
}

// relay writes until frames is closed, or the client is gone.
func (f *Writer) relay(frames <-chan *wire.StreamFrame) (gone bool) {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case fr, ok := <-frames:
			if !ok {
				return false
			}
			if f.Write(&api.StreamFrame{Offset: fr.Offset, Data: fr.Data, File: fr.File, FileEvent: fr.Event}) != nil {
				return true
			}
		case <-t.C:
			if f.heartbeat() != nil {
				return true
			}
		}
	}
}
