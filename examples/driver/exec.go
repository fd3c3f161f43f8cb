package main

import (
	"berth/pluginproto/driverpb"
	"context"
	"io"
	"os/exec"
	"sync"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ExecTaskStreaming runs a command beside a task. This driver gives it no terminal.
func (d *driver) ExecTaskStreaming(s driverpb.Driver_ExecTaskStreamingServer) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	setup := first.GetSetup()
	if setup == nil || len(setup.GetCommand()) == 0 {
		return status.Error(codes.InvalidArgument, "the first message must set the command up")
	}
	t, err := d.task(setup.GetTaskId())
	if err != nil {
		return err
	}
	if setup.GetTty() {
		return status.Error(codes.Unimplemented, "the driver has no terminals")
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	cmd := t.command(ctx, setup.GetCommand())
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var mu sync.Mutex // a stream takes one message at a time
	cmd.Stdout = sender(func(p []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return s.Send(&driverpb.ExecTaskStreamingResponse{Stdout: &driverpb.ExecTaskStreamingIOOperation{Data: p}})
	})
	cmd.Stderr = sender(func(p []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return s.Send(&driverpb.ExecTaskStreamingResponse{Stderr: &driverpb.ExecTaskStreamingIOOperation{Data: p}})
	})
	if err := cmd.Start(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	go func() {
		for {
			m, err := s.Recv()
			if err != nil {
				in.Close()
				return
			}
			if _, err := in.Write(m.GetStdin().GetData()); err != nil || m.GetStdin().GetClose() {
				in.Close()
			}
		}
	}()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return status.Error(codes.Internal, err.Error())
	}
	return s.Send(&driverpb.ExecTaskStreamingResponse{Exited: true, Result: result(cmd)})
}

// result is how a process ended.
func result(cmd *exec.Cmd) *driverpb.ExitResult {
	ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus) // this driver runs on Linux alone
	if ws.Signaled() {
		return &driverpb.ExitResult{Signal: int32(ws.Signal())}
	}
	return &driverpb.ExitResult{ExitCode: int32(ws.ExitStatus())}
}

type sender func([]byte) error

func (s sender) Write(p []byte) (int, error) { return len(p), s(append([]byte(nil), p...)) }

var _ io.Writer = sender(nil)
