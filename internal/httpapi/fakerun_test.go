package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// files are what every alloc's directory holds.
var files = map[string]string{"/alloc/data/readme": "0123456789"}

// registerRun serves what a node serves, from words.
func registerRun(ws *wire.Server) {
	registerPlain(ws)
	registerStreams(ws)
	wire.RunListVolumes.Serve(ws, func(_ context.Context, r *wire.RunPluginRequest) (*wire.ExternalListReply, error) {
		return &wire.ExternalListReply{Volumes: []wire.ExternalVolume{{ExternalID: "ext-db", Capacity: 1 << 20, Context: map[string]string{"c": "1"}, PublishedNodes: []string{"store-1"}}}, NextToken: "more"}, nil
	})
	wire.RunListSnapshots.Serve(ws, func(_ context.Context, r *wire.RunPluginRequest) (*wire.SnapshotListReply, error) {
		return &wire.SnapshotListReply{Snapshots: []*volume.Snapshot{{ExternalID: "snap-s1", SourceExternalID: "ext-db", Size: 42, Ready: true, Plugin: r.Plugin, CreateTime: time.Unix(1700000000, 0).UnixNano()}}, NextToken: "more"}, nil
	})
	wire.RunValidate.Serve(ws, func(_ context.Context, r *wire.RunValidateRequest) (*wire.RunValidateReply, error) {
		return &wire.RunValidateReply{Warning: "the plugin confirmed nothing"}, nil
	})
}

func registerPlain(ws *wire.Server) {
	wire.RunRestart.Serve(ws, func(_ context.Context, r *wire.RunRestartRequest) (*wire.Empty, error) {
		return &wire.Empty{}, taskKnown(r.Task)
	})
	wire.RunSignal.Serve(ws, func(_ context.Context, r *wire.RunSignalRequest) (*wire.Empty, error) {
		if r.Signal != "SIGHUP" {
			return nil, fault.New(fault.Invalid, "signal", "", fmt.Sprintf("unknown signal %q", r.Signal))
		}
		return &wire.Empty{}, taskKnown(r.Task)
	})
	wire.RunStats.Serve(ws, func(context.Context, *wire.RunRef) (*wire.RunStatsReply, error) {
		u := wire.Usage{MemoryRSS: 4096, CPUPercent: 1.5, Time: time.Now().UnixNano()}
		return &wire.RunStatsReply{Total: u, Tasks: map[string]wire.Usage{"t": u}}, nil
	})
	wire.RunHost.Serve(ws, func(context.Context, *wire.RunRef) (*wire.RunHostReply, error) {
		return &wire.RunHostReply{MemTotal: 1 << 30, Uptime: 7, CPU: []wire.CPUStat{{CPU: "cpu0", Idle: 99}}, Disks: []wire.DiskStat{{Device: "/dev/x", Mountpoint: "/"}}, Time: 1}, nil
	})
	wire.RunList.Serve(ws, func(_ context.Context, r *wire.RunPath) (*wire.RunListReply, error) {
		return &wire.RunListReply{Files: []wire.FileInfo{{Name: "alloc", IsDir: true, FileMode: "drwxr-xr-x", ModTime: time.Now()}}}, nil
	})
	wire.RunStat.Serve(ws, func(_ context.Context, r *wire.RunPath) (*wire.RunListReply, error) {
		text, there := files[r.Path]
		if !there {
			return nil, fault.New(fault.NotFound, "stat", r.Path, "no such file or directory")
		}
		return &wire.RunListReply{Files: []wire.FileInfo{{Name: "readme", Size: int64(len(text)), FileMode: "-rw-r--r--", ContentType: "text/plain"}}}, nil
	})
}

func taskKnown(task string) error {
	if task != "" && task != "t" {
		return fault.New(fault.NotFound, "", "", fmt.Sprintf("unknown task name %q", task))
	}
	return nil
}

func registerStreams(ws *wire.Server) {
	wire.RunRead.Serve(ws, func(r *wire.RunReadRequest, st *wire.Stream[wire.RunFrame, wire.Empty]) error {
		text, there := files[r.Path]
		if !there {
			return fault.New(fault.NotFound, "open", r.Path, "no such file or directory")
		}
		text = text[min(int(r.Offset), len(text)):]
		if r.Limit > 0 {
			text = text[:min(int(r.Limit), len(text))]
		}
		if err := st.Send(&wire.RunFrame{Data: []byte(text), File: r.Path, Offset: r.Offset + int64(len(text))}); err != nil {
			return err
		}
		if r.Follow {
			<-st.Context().Done()
		}
		return nil
	})
	wire.RunLogs.Serve(ws, serveLogs)
	wire.RunExec.Serve(ws, serveExec)
	wire.RunMonitor.Serve(ws, func(r *wire.RunMonitorRequest, st *wire.Stream[wire.RunFrame, wire.Empty]) error {
		return st.Send(&wire.RunFrame{Data: []byte("from the node\n")})
	})
}

func serveLogs(r *wire.RunLogsRequest, st *wire.Stream[wire.RunFrame, wire.Empty]) error {
	if err := taskKnown(r.Task); err != nil {
		return err
	}
	if err := st.Send(&wire.RunFrame{Data: []byte("hello\n"), File: "alloc/logs/t." + r.Type + ".0", Offset: 6}); err != nil {
		return err
	}
	if !r.Follow {
		return nil
	}
	select {
	case <-st.Context().Done():
		return nil
	case <-time.After(1500 * time.Millisecond):
	}
	return st.Send(&wire.RunFrame{Data: []byte("late\n"), File: "alloc/logs/t." + r.Type + ".0", Offset: 11})
}

// serveExec is a program that shouts back what it hears and ends with code 3 at the end of its input.
func serveExec(r *wire.RunExecRequest, st *wire.Stream[wire.RunExecOut, wire.RunExecIn]) error {
	if err := taskKnown(r.Task); err != nil {
		return err
	}
	if r.Command[0] == "missing" {
		return fault.New(fault.Internal, "", "", "failed to start command: "+strings.Repeat("x", 200))
	}
	for {
		in, err := st.Recv()
		if errors.Is(err, io.EOF) || err == nil && in.CloseStdin {
			if err := st.Send(&wire.RunExecOut{CloseStdout: true, CloseStderr: true}); err != nil {
				return err
			}
			return st.Send(&wire.RunExecOut{Exited: true, ExitCode: 3})
		}
		if err != nil {
			return err
		}
		out := &wire.RunExecOut{Stdout: bytes.ToUpper(in.Stdin)}
		if in.Height > 0 {
			out.Stderr = fmt.Appendf(nil, "%dx%d", in.Height, in.Width)
		}
		if err := st.Send(out); err != nil {
			return err
		}
	}
}
