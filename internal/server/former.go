package server

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"berth/internal/base/lifecycle"
)

// formerWait is how long a server that led until now may take to say that it is there. One that does not stands still,
// or is cut off without a word.
const formerWait = 2 * time.Second

var errFormer = errors.New("it leads no more, and is silent")

// watchFormer makes sure that no call waits for a server that led and is silent: the bounds of silence on a connection
// are longer than it takes another one to lead, to which what was asked can be brought.
func (s *Server) watchFormer(ctx context.Context) error {
	g, gctx := lifecycle.NewGroup(ctx)
	for ctx.Err() == nil {
		former, changed := s.log.Leader()
		select {
		case <-ctx.Done():
		case <-changed:
			if former != "" && former != s.log.ID() {
				g.Go("ask the one that led", func() error { s.askFormer(gctx, former); return nil })
			}
		}
	}
	return g.Wait()
}

// askFormer ends the connection to a server that does not answer, with the calls on it.
func (s *Server) askFormer(ctx context.Context, id string) {
	line := s.others.line(id)
	if line == nil {
		return // nothing was asked of it
	}
	wait, cancel := context.WithTimeout(ctx, formerWait)
	defer cancel()
	if err := s.missed.Ask(wait, id); err == nil || wait.Err() == nil || ctx.Err() != nil {
		return
	}
	s.cfg.Log.Debug("the server that led is silent, its connection is ended", "server", id)
	line.silent.Store(true)
	_ = line.Close() // the calls on it end, and say why
}

// line is a connection to another server.
type line struct {
	net.Conn
	silent atomic.Bool // it was ended for that
}

// Read implements net.Conn.
func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil && l.silent.Load() {
		err = errFormer
	}
	return n, err
}

// line is the last connection that was made to a server; nil: there is none.
func (o *others) line(id string) *line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines[id]
}

// dial makes a connection to a server.
func (o *others) dial(ctx context.Context, id string) (net.Conn, error) {
	conn, err := o.network.Dial(ctx, id)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lines == nil {
		o.lines = map[string]*line{}
	}
	o.lines[id] = l
	return l, nil
}
