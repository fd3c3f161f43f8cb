package shim

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/shimproto"
)

// conn is one conversation with the agent.
type conn struct {
	shim    *Shim
	file    *os.File
	version int        // of the protocol
	mu      sync.Mutex // writes
}

// Write sends whole frames; several goroutines of an exec share the connection.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file.Write(b)
}

func (c *conn) close() {
	c.shim.mu.Lock()
	delete(c.shim.conns, c)
	c.shim.mu.Unlock()
	_ = c.file.Close() // every frame was written
}

func (c *conn) run() error {
	defer c.close()
	if err := c.greet(); err != nil {
		return c.refuse(err)
	}
	t, payload, err := shimproto.Read(c.file)
	if err != nil {
		return c.refuse(err)
	}
	c.shim.hurry(1)
	reply, err := c.answer(t, payload)
	waits := t == shimproto.TypeWait && reply == nil && err == nil
	if reply != nil && err == nil {
		err = c.say(t, reply)
	}
	if err != nil {
		err = c.refuse(err)
	}
	c.shim.hurry(-1)
	if !waits {
		return err
	}
	_, _, err = shimproto.Read(c.file) // the exit is sent when it comes: this ends when the agent hangs up
	c.forsake(payload)
	return hungUp(err)
}

// hurry counts the conversations that have an answer coming.
func (s *Shim) hurry(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy += n
}

// say sends the answer to a request. Version 1 has no word for what has ended.
func (c *conn) say(t shimproto.Type, reply shimproto.Message) error {
	ended, ok := reply.(*shimproto.Ended)
	switch {
	case !ok:
		return hungUp(shimproto.Write(c, shimproto.TypeDone, reply))
	case c.version < 2 && t == shimproto.TypeLaunch:
		return fault.New(fault.Conflict, "launch", "the process", "this attempt has ended")
	case c.version < 2:
		return fault.New(fault.NotFound, "find", "the process", "it has ended")
	}
	return hungUp(shimproto.Write(c, shimproto.TypeEnded, ended))
}

// refuse answers with the error; that the agent hung up is none.
func (c *conn) refuse(err error) error {
	if hungUp(err) == nil {
		return nil
	}
	return hungUp(shimproto.Write(c, shimproto.TypeFault, shimproto.FaultOf(err)))
}

func hungUp(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, os.ErrClosed, unix.EPIPE, unix.ECONNRESET} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}

func (c *conn) greet() error {
	t, payload, err := shimproto.Read(c.file)
	if err != nil {
		return err
	}
	var hello shimproto.Hello
	if t != shimproto.TypeHello {
		return fault.New(fault.Invalid, "greet", "the agent", "its first frame is of type "+strconv.Itoa(int(t)))
	}
	if err := shimproto.Unmarshal(payload, &hello); err != nil {
		return err
	}
	version := min(hello.Max, shimproto.Version)
	if version < max(hello.Min, shimproto.MinVersion) {
		return fault.WithHint(
			fault.New(fault.Unsupported, "greet", "the agent",
				"this shim speaks protocol "+strconv.Itoa(shimproto.MinVersion)+
					" to "+strconv.Itoa(shimproto.Version)), "stop the alloc with the version of berth that started it")
	}
	c.version = version
	return shimproto.Write(c, shimproto.TypeHelloReply,
		&shimproto.HelloReply{Version: version, PID: os.Getpid(), Start: c.shim.start, Alloc: c.shim.alloc})
}

// answer carries out one request. A nil reply without error was sent already, or is to come.
func (c *conn) answer(t shimproto.Type, payload []byte) (shimproto.Message, error) {
	switch t {
	case shimproto.TypeLaunch:
		return c.launch(payload)
	case shimproto.TypeSignal:
		return c.signal(payload)
	case shimproto.TypeKill:
		return c.kill(payload)
	case shimproto.TypeExec:
		return c.exec(payload)
	case shimproto.TypeList:
		return c.shim.list(), nil
	case shimproto.TypeBye:
		return &shimproto.Forgotten{Last: c.shim.bye()}, nil
	case shimproto.TypeLease:
		var m shimproto.Lease
		if err := shimproto.Unmarshal(payload, &m); err != nil {
			return nil, err
		}
		return c.shim.renew(&m), nil
	case shimproto.TypeWait, shimproto.TypeForget, shimproto.TypeStats:
		n, err := named(payload)
		if err != nil {
			return nil, err
		}
		return c.about(t, n)
	}
	return nil, fault.New(fault.Unsupported, "answer", "request "+strconv.Itoa(int(t)), "this shim does not know it")
}

func named(payload []byte) (n shimproto.Named, err error) {
	err = shimproto.Unmarshal(payload, &n)
	n.Complete()
	return n, err
}

// about answers a request that names only an attempt.
func (c *conn) about(t shimproto.Type, n shimproto.Named) (shimproto.Message, error) {
	switch t {
	case shimproto.TypeForget:
		last, err := c.shim.forget(n)
		return &shimproto.Forgotten{Last: last}, err
	case shimproto.TypeWait:
		return c.wait(n)
	}
	p, ended, err := c.shim.find(n)
	if err != nil {
		return nil, err
	}
	if ended != nil {
		return ended, nil
	}
	stats := shimproto.Stats(p.cgroup.Stats())
	return &stats, nil
}

// wait answers with the exit, or registers for it: then there is no reply yet.
func (c *conn) wait(n shimproto.Named) (shimproto.Message, error) {
	p, ended, err := c.shim.find(n)
	switch {
	case err != nil:
		return nil, err
	case ended != nil:
		return &ended.Exit, nil
	}
	exit, registered := p.await(c)
	switch {
	case registered:
		return nil, nil
	case exit != nil:
		return exit, nil
	}
	if _, ended, err = c.shim.find(n); ended != nil { // it never ran, and was settled meanwhile
		return &ended.Exit, nil
	}
	return nil, errors.Join(err, unheld(n))
}

// forsake takes back the registration of an agent that hung up.
func (c *conn) forsake(payload []byte) {
	n, err := named(payload)
	if err != nil {
		return // it was not registered either
	}
	if p, _, err := c.shim.find(n); err == nil && p != nil {
		p.leave(c)
	}
}

func (c *conn) launch(payload []byte) (shimproto.Message, error) {
	var m shimproto.Launch
	if err := shimproto.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	m.Complete()
	p, ended, err := c.shim.launch(&m)
	if err != nil {
		return nil, err
	}
	if ended != nil {
		return ended, nil
	}
	return p.answer(c.hangup())
}

func (c *conn) signal(payload []byte) (shimproto.Message, error) {
	var m shimproto.Signal
	if err := shimproto.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	m.Complete()
	p, ended, err := c.shim.find(m.Named)
	if err != nil {
		return nil, err
	}
	if ended != nil {
		return ended, nil
	}
	return &shimproto.Named{}, p.signal(unix.Signal(m.Number))
}

// kill asks an attempt to end and answers how it did when nothing of it is left. The end goes on without the agent.
func (c *conn) kill(payload []byte) (shimproto.Message, error) {
	var m shimproto.Kill
	if err := shimproto.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	m.Complete()
	p, ended, err := c.shim.find(m.Named)
	if err != nil {
		return nil, err
	}
	if p != nil {
		if err := p.stop(unix.Signal(m.Number), time.Duration(m.Grace)); err != nil {
			return nil, err
		}
		if err := p.awaitGone(c.hangup()); err != nil {
			return nil, err
		}
		if _, ended, err = c.shim.find(m.Named); err != nil {
			return nil, err
		}
	}
	if ended == nil {
		return nil, unheld(m.Named)
	}
	return &ended.Exit, nil
}

// hangup is closed when the agent has hung up. Nothing more is read from it.
func (c *conn) hangup() <-chan struct{} {
	over := make(chan struct{})
	c.shim.goAsync("hangup", func() error {
		defer close(over)
		_, _, err := shimproto.Read(c.file)
		return hungUp(err)
	})
	return over
}
