package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// ExecSession is a program that runs in a task, with its input and output. Send and Recv may be called at the same time,
// each by one caller.
type ExecSession struct{ ws *webSocket }

// ExecOptions say what to run where.
type ExecOptions struct {
	Task    string
	Command []string
	TTY     bool
}

// Exec starts a program in a task. The end of ctx ends the session.
func (a Allocations) Exec(ctx context.Context, id string, e ExecOptions, o *QueryOptions) (*ExecSession, error) {
	command, err := json.Marshal(e.Command)
	if err != nil {
		return nil, fmt.Errorf("the command cannot be encoded: %w", err)
	}
	r := newCall(http.MethodGet, "client", "allocation", id, "exec").set("task", e.Task).set("command", string(command)).setBool("tty", e.TTY).read(o)
	ws, err := a.c.webSocket(ctx, r)
	if err != nil {
		return nil, err
	}
	return &ExecSession{ws}, nil
}

// Send sends input, a change of the terminal's size, or with the zero value a sign of life.
func (s *ExecSession) Send(in *ExecStreamingInput) error {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("the input cannot be encoded: %w", err)
	}
	return s.ws.writeText(data)
}

// Recv returns the next output. The last has Exited set. A refusal of the agent is a *StatusError; its Code is 0.
func (s *ExecSession) Recv() (*ExecStreamingOutput, error) {
	data, err := s.ws.readMessage()
	if err != nil {
		return nil, err
	}
	var out ExecStreamingOutput
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("the agent's message cannot be read: %w", err)
	}
	return &out, nil
}

// Close ends the session and with it the program.
func (s *ExecSession) Close() error { return s.ws.close() }
