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
	wire.AgentListVolumes.Serve(ws,
		func(_ context.Context, r *wire.PluginReadRequest) (*wire.ProviderList[wire.ExternalVolume], error) {
			return &wire.ProviderList[wire.ExternalVolume]{
				Items: []wire.ExternalVolume{{
					ExternalID:     "ext-db",
					Capacity:       1 << 20,
					Context:        map[string]string{"c": "1"},
					PublishedNodes: []string{"store-1"},
				}},
				NextToken: "more",
			}, nil
		})
	wire.AgentListSnapshots.Serve(ws,
		func(_ context.Context, r *wire.PluginReadRequest) (*wire.ProviderList[*volume.Snapshot], error) {
			return &wire.ProviderList[*volume.Snapshot]{
				Items: []*volume.Snapshot{{
					ExternalID:       "snap-s1",
					SourceExternalID: "ext-db",
					Size:             42,
					Ready:            true,
					Plugin:           r.Plugin,
					CreateTime:       time.Unix(1700000000, 0).UnixNano(),
				}},
				NextToken: "more",
			}, nil
		})
	wire.AgentValidateVolume.Serve(ws,
		func(_ context.Context, r *wire.ValidateVolumeRequest) (*wire.ValidateVolumeReply, error) {
			return &wire.ValidateVolumeReply{Warning: "the plugin confirmed nothing"}, nil
		})
}

func registerPlain(ws *wire.Server) {
	wire.AllocRestart.Serve(ws, func(_ context.Context, r *wire.AllocRestartRequest) (*wire.Empty, error) {
		return &wire.Empty{}, taskKnown(r.Task)
	})
	wire.AllocSignal.Serve(ws, func(_ context.Context, r *wire.AllocSignalRequest) (*wire.Empty, error) {
		if r.Signal != "SIGHUP" {
			return nil, fault.New(fault.Invalid, "signal", "", fmt.Sprintf("unknown signal %q", r.Signal))
		}
		return &wire.Empty{}, taskKnown(r.Task)
	})
	wire.AllocStats.Serve(ws, func(context.Context, *wire.AgentRef) (*wire.AllocStatsReply, error) {
		u := wire.Usage{MemoryRSS: 4096, CPUPercent: 1.5, Time: time.Now().UnixNano()}
		return &wire.AllocStatsReply{Total: u, Tasks: map[string]wire.Usage{"t": u}}, nil
	})
	wire.AllocChecks.Serve(ws, func(context.Context, *wire.AgentRef) (*wire.AllocChecksReply, error) {
		return &wire.AllocChecksReply{AllocName: "web.g[0]", Checks: []wire.CheckStatus{{
			ID:      "51402302309fb29e43a65490d5843811ab865a2cc176eb91f96c9881f7499a32",
			Check:   "c",
			Service: "web",
			Mode:    "healthiness",
			Status:  "success",
			At:      1,
		}}}, nil
	})
	wire.AgentHostStats.Serve(ws, func(context.Context, *wire.AgentRef) (*wire.HostStatsReply, error) {
		return &wire.HostStatsReply{
			MemTotal: 1 << 30,
			Uptime:   7,
			CPU:      []wire.CPUStat{{CPU: "cpu0", Idle: 99}},
			Disks:    []wire.DiskStat{{Device: "/dev/x", Mountpoint: "/"}},
			Time:     1,
		}, nil
	})
	wire.AllocFiles.Serve(ws, func(_ context.Context, r *wire.AllocPath) (*wire.FilesReply, error) {
		return &wire.FilesReply{
			Files: []wire.FileInfo{{Name: "alloc", IsDir: true, FileMode: "drwxr-xr-x", ModTime: time.Now()}},
		}, nil
	})
	wire.AllocFileStat.Serve(ws, func(_ context.Context, r *wire.AllocPath) (*wire.FilesReply, error) {
		text, there := files[r.Path]
		if !there {
			return nil, fault.New(fault.NotFound, "stat", r.Path, "no such file or directory")
		}
		return &wire.FilesReply{
			Files: []wire.FileInfo{{
				Name:        "readme",
				Size:        int64(len(text)),
				FileMode:    "-rw-r--r--",
				ContentType: "text/plain",
			}},
		}, nil
	})
}

func taskKnown(task string) error {
	if task != "" && task != "t" {
		return fault.New(fault.NotFound, "", "", fmt.Sprintf("unknown task name %q", task))
	}
	return nil
}

func registerStreams(ws *wire.Server) {
	wire.AllocFileRead.Serve(ws, func(r *wire.FileReadRequest, st *wire.Stream[wire.StreamFrame, wire.Empty]) error {
		text, there := files[r.Path]
		if !there {
			return fault.New(fault.NotFound, "open", r.Path, "no such file or directory")
		}
		text = text[min(int(r.Offset), len(text)):]
		if r.Limit > 0 {
			text = text[:min(int(r.Limit), len(text))]
		}
		if err := st.Send(
			&wire.StreamFrame{Data: []byte(text), File: r.Path, Offset: r.Offset + int64(len(text))}); err != nil {
			return err
		}
		if r.Follow {
			<-st.Context().Done()
		}
		return nil
	})
	wire.AllocLogs.Serve(ws, serveLogs)
	wire.AllocExec.Serve(ws, serveExec)
	wire.AgentMonitor.Serve(ws, func(r *wire.AgentMonitorRequest, st *wire.Stream[wire.StreamFrame, wire.Empty]) error {
		return st.Send(&wire.StreamFrame{Data: []byte("from the node\n")})
	})
}

func serveLogs(r *wire.AllocLogsRequest, st *wire.Stream[wire.StreamFrame, wire.Empty]) error {
	if err := taskKnown(r.Task); err != nil {
		return err
	}
	said := []byte("hello\n")
	if r.Origin == "end" {
		said = said[max(0, len(said)-int(r.Offset)):]
	}
	if err := st.Send(&wire.StreamFrame{Data: said, File: "alloc/logs/t." + r.Type + ".0", Offset: 6}); err != nil {
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
	return st.Send(&wire.StreamFrame{Data: []byte("late\n"), File: "alloc/logs/t." + r.Type + ".0", Offset: 11})
}

// serveExec is a program that shouts back what it hears and ends with code 3 at the end of its input.
func serveExec(r *wire.AllocExecRequest, st *wire.Stream[wire.ExecOutput, wire.ExecInput]) error {
	if err := taskKnown(r.Task); err != nil {
		return err
	}
	if r.Command[0] == "missing" {
		return fault.New(fault.Internal, "", "", "failed to start command: "+strings.Repeat("x", 200))
	}
	for {
		in, err := st.Recv()
		if errors.Is(err, io.EOF) || err == nil && in.CloseStdin {
			if err := st.Send(&wire.ExecOutput{CloseStdout: true, CloseStderr: true}); err != nil {
				return err
			}
			return st.Send(&wire.ExecOutput{Exited: true, ExitCode: 3})
		}
		if err != nil {
			return err
		}
		out := &wire.ExecOutput{Stdout: bytes.ToUpper(in.Stdin)}
		if in.Height > 0 {
			out.Stderr = fmt.Appendf(nil, "%dx%d", in.Height, in.Width)
		}
		if err := st.Send(out); err != nil {
			return err
		}
	}
}
