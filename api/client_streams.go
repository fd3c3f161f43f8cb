package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Frames is a stream of a log or a file, frame by frame. The caller closes it.
type Frames struct {
	body io.ReadCloser
	dec  *json.Decoder
}

// frames opens a stream. It is not compressed: frames should come when they are written.
func (c *Client) frames(ctx context.Context, r *call) (*Frames, error) {
	r.header.Set("Accept-Encoding", "identity")
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Frames{body: resp.Body, dec: json.NewDecoder(resp.Body)}, nil
}

// NextOrBeat returns the next frame or heartbeat: that shows that there is nothing more for now. At the regular end it
// returns io.EOF.
func (f *Frames) NextOrBeat() (*StreamFrame, error) {
	var out StreamFrame
	err := f.dec.Decode(&out)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("the stream broke off: %w", err)
	}
	return &out, nil
}

// Next returns the next frame that is not a heartbeat. At the regular end it returns io.EOF.
func (f *Frames) Next() (*StreamFrame, error) {
	for {
		out, err := f.NextOrBeat()
		if err != nil || !out.IsHeartbeat() {
			return out, err
		}
	}
}

// CopyTo writes the data to w until the stream ends.
func (f *Frames) CopyTo(w io.Writer) error {
	for {
		frame, err := f.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(frame.Data); err != nil {
			return err
		}
	}
}

// Close ends the stream.
func (f *Frames) Close() error { return f.body.Close() }

// The ends from which an offset counts.
const (
	OriginStart = "start"
	OriginEnd   = "end"
)

// LogOptions select a part of a task's output.
type LogOptions struct {
	Task   string
	Type   string // stdout or stderr
	Follow bool
	Origin string // OriginStart or OriginEnd
	Offset int64  // bytes from the origin
}

// Logs opens the output of a task.
func (a Allocations) Logs(ctx context.Context, id string, l LogOptions, o *QueryOptions) (*Frames, error) {
	r := newCall(http.MethodGet, "client", "fs", "logs", id).set("task", l.Task).set("type", l.Type).setBool("follow",
		l.Follow).
		set("origin", l.Origin).set("offset", number(l.Offset)).read(o)
	return a.c.frames(ctx, r)
}

// ReadFile returns a file of an allocation from offset on; limit 0 reads to its end. The caller closes it.
func (a Allocations) ReadFile(
	ctx context.Context, id, path string, offset, limit int64, o *QueryOptions,
) (io.ReadCloser, error) {
	r := newCall(http.MethodGet, "client", "fs", "readat", id).set("path", path).set("offset",
		number(offset)).set("limit", number(limit)).read(o)
	resp, err := a.c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// CatFile returns a whole file of an allocation. The caller closes it.
func (a Allocations) CatFile(ctx context.Context, id, path string, o *QueryOptions) (io.ReadCloser, error) {
	resp, err := a.c.send(ctx, newCall(http.MethodGet, "client", "fs", "cat", id).set("path", path).read(o))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// FollowFile opens a file of an allocation and goes on with what is appended to it.
func (a Allocations) FollowFile(
	ctx context.Context, id, path, origin string, offset int64, o *QueryOptions,
) (*Frames, error) {
	r := newCall(http.MethodGet, "client", "fs", "stream", id).set("path", path).set("origin", origin).set("offset",
		number(offset)).
		setBool("follow", true).read(o)
	return a.c.frames(ctx, r)
}

// MonitorOptions select the log of an agent.
type MonitorOptions struct {
	Level    string // trace, debug, info, warn, error
	NodeID   string // of a node; empty: the agent asked, or ServerID
	ServerID string
	JSON     bool
	Location bool // with file and line
}

// Monitor opens the log of an agent.
func (a Cluster) Monitor(ctx context.Context, m MonitorOptions) (*Frames, error) {
	r := newCall(http.MethodGet, "agent", "monitor").set("log_level", m.Level).set("node_id", m.NodeID).set("server_id",
		m.ServerID).
		setBool("log_json", m.JSON).setBool("log_include_location", m.Location)
	return a.c.frames(ctx, r)
}
