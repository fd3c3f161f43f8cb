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
	shim *Shim
	file *os.File
	mu   sync.Mutex // writes
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
	reply, err := c.answer(t, payload)
	if err != nil {
		return c.refuse(err)
	}
	if reply == nil {
		return nil // the answer was streamed
	}
	err = shimproto.Write(c, shimproto.TypeDone, reply)
	if f, ok := reply.(*shimproto.Forgotten); ok && f.Last {
		c.shim.quitOnce.Do(func() { close(c.shim.quit) })
	}
	return hungUp(err)
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
		return fault.WithHint(fault.New(fault.Unsupported, "greet", "the agent", "this shim speaks protocol "+strconv.Itoa(shimproto.MinVersion)+
			" to "+strconv.Itoa(shimproto.Version)), "stop the alloc with the version of berth that started it")
	}
	return shimproto.Write(c, shimproto.TypeHelloReply, &shimproto.HelloReply{Version: version, PID: os.Getpid(), Start: c.shim.start, Alloc: c.shim.alloc})
}

// answer carries out one request. A nil reply without error was sent already.
func (c *conn) answer(t shimproto.Type, payload []byte) (shimproto.Message, error) {
	switch t {
	case shimproto.TypeLaunch:
		var m shimproto.Launch
		if err := shimproto.Unmarshal(payload, &m); err != nil {
			return nil, err
		}
		return c.shim.launch(&m, c.hangup())
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
	case shimproto.TypeWait, shimproto.TypeForget, shimproto.TypeStats:
		var m shimproto.Named
		if err := shimproto.Unmarshal(payload, &m); err != nil {
			return nil, err
		}
		return c.about(t, m.Name)
	}
	return nil, fault.New(fault.Unsupported, "answer", "request "+strconv.Itoa(int(t)), "this shim does not know it")
}

// about answers a request that names only a process.
func (c *conn) about(t shimproto.Type, name string) (shimproto.Message, error) {
	p, err := c.shim.find(name)
	if err != nil {
		return nil, err
	}
	switch t {
	case shimproto.TypeForget:
		return &shimproto.Forgotten{}, c.shim.forget(name)
	case shimproto.TypeStats:
		stats := p.cgroup.Stats()
		return &stats, nil
	}
	p.await(c)
	_, _, err = shimproto.Read(c.file) // nothing more is said: this ends when the agent hangs up
	p.leave(c)
	return nil, err
}

func (c *conn) signal(payload []byte) (shimproto.Message, error) {
	var m shimproto.Signal
	if err := shimproto.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	p, err := c.shim.find(m.Name)
	if err != nil {
		return nil, err
	}
	return &shimproto.Named{}, fault.Wrap(p.main.Signal(unix.Signal(m.Number)), fault.Invalid, "signal", "process "+m.Name)
}

func (c *conn) kill(payload []byte) (shimproto.Message, error) {
	var m shimproto.Kill
	if err := shimproto.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	p, err := c.shim.find(m.Name)
	if err != nil {
		return nil, err
	}
	return p.kill(unix.Signal(m.Number), time.Duration(m.Grace), c.hangup())
}

// hangup returns a channel that is closed when the agent ends the conversation. Nothing more is read from it.
func (c *conn) hangup() <-chan struct{} {
	ch := make(chan struct{})
	c.shim.beside("hangup", func() error {
		defer close(ch)
		_, _, err := shimproto.Read(c.file)
		return hungUp(err)
	})
	return ch
}
