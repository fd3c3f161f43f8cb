package external_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/port/driver"
	"berth/internal/testkit/playedplugin"
	"berth/pluginproto/driverpb"
)

// able is a plugin that can do everything, with tasks that are no processes. "crash at CALL" and "hang at CALL" have it
// do that once, at the first call of this name.
type able struct {
	bad
	mu    sync.Mutex
	tasks map[string]chan struct{} // closed when the task has ended
}

func newAble() *able { return &able{bad: bad{mode: "nets"}, tasks: map[string]chan struct{}{}} }

func (a *able) task(id string) (chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tasks[id] == nil {
		return nil, status.Error(codes.Unknown, "task not found for given id")
	}
	return a.tasks[id], nil
}

func (a *able) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tasks)
}

func (a *able) begin(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tasks[id] = make(chan struct{})
}

func (*able) Capabilities(context.Context, *driverpb.CapabilitiesRequest) (*driverpb.CapabilitiesResponse, error) {
	return &driverpb.CapabilitiesResponse{Capabilities: &driverpb.DriverCapabilities{
		SendSignals:           true,
		Exec:                  true,
		MustCreateNetwork:     true,
		NetworkIsolationModes: []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_GROUP},
	}}, nil
}

func (*able) Init(context.Context, *driverpb.InitRequest) (*driverpb.InitResponse, error) {
	return &driverpb.InitResponse{}, nil
}

// TaskEvents tells of its first task again and again, and too much, and as often of one that it does not have, in a
// plugin that has a file that says so.
func (a *able) TaskEvents(_ *driverpb.TaskEventsRequest, s driverpb.Driver_TaskEventsServer) error {
	_, err := os.Stat(filepath.Join(playedplugin.StateDir(), "tells"))
	for n := 0; err == nil; n++ {
		for a.count() == 0 {
			time.Sleep(time.Millisecond)
		}
		if err = s.Send(&driverpb.DriverTaskEvent{AllocId: "a2", TaskName: "t", Message: "foreign"}); err != nil {
			break
		}
		e := &driverpb.DriverTaskEvent{AllocId: "a1", TaskName: "t", Message: strconv.Itoa(n)}
		if n == 0 {
			e.Message = strings.Repeat("é", 1<<20)
			e.Annotations = map[string]string{}
			for i := range 2000 {
				e.Annotations[strconv.Itoa(i)+strings.Repeat("k", 3000)] = strings.Repeat("v", 3000)
			}
		}
		err = s.Send(e)
	}
	<-s.Context().Done()
	return nil
}

func (a *able) StartTask(_ context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
	a.begin(r.GetTask().GetId())
	return &driverpb.StartTaskResponse{Handle: &driverpb.TaskHandle{
		Version: 1,
		Config:  r.GetTask(),
		State:   driverpb.TaskState_RUNNING,
	}}, nil
}

func (a *able) RecoverTask(_ context.Context, r *driverpb.RecoverTaskRequest) (*driverpb.RecoverTaskResponse, error) {
	if _, err := os.Stat(filepath.Join(playedplugin.StateDir(), "away")); err == nil {
		return nil, status.Error(codes.Unavailable, "the daemon does not answer")
	}
	if _, err := a.task(r.GetHandle().GetConfig().GetId()); err != nil {
		a.begin(r.GetHandle().GetConfig().GetId())
	}
	return &driverpb.RecoverTaskResponse{}, nil
}

func (a *able) WaitTask(ctx context.Context, r *driverpb.WaitTaskRequest) (*driverpb.WaitTaskResponse, error) {
	end, err := a.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	select {
	case <-end:
		return &driverpb.WaitTaskResponse{Result: &driverpb.ExitResult{ExitCode: 6}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *able) StopTask(_ context.Context, r *driverpb.StopTaskRequest) (*driverpb.StopTaskResponse, error) {
	end, err := a.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-end: // it was stopped before
	default:
		close(end)
	}
	return &driverpb.StopTaskResponse{}, nil
}

func (a *able) DestroyTask(_ context.Context, r *driverpb.DestroyTaskRequest) (*driverpb.DestroyTaskResponse, error) {
	_, err := a.task(r.GetTaskId())
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tasks, r.GetTaskId())
	return &driverpb.DestroyTaskResponse{}, err
}

func (a *able) SignalTask(_ context.Context, r *driverpb.SignalTaskRequest) (*driverpb.SignalTaskResponse, error) {
	_, err := a.task(r.GetTaskId())
	return &driverpb.SignalTaskResponse{}, err
}

func (a *able) TaskStats(r *driverpb.TaskStatsRequest, s driverpb.Driver_TaskStatsServer) error {
	if _, err := a.task(r.GetTaskId()); err != nil {
		return err
	}
	return s.Send(&driverpb.TaskStatsResponse{Stats: &driverpb.TaskStats{
		AggResourceUsage: &driverpb.TaskResourceUsage{Memory: &driverpb.MemoryUsage{Rss: 5 << 20}},
	}})
}

// ExecTaskStreaming answers with as many bytes, in one message, as the command says.
func (a *able) ExecTaskStreaming(s driverpb.Driver_ExecTaskStreamingServer) error {
	r, err := s.Recv()
	if err != nil {
		return err
	}
	if _, err := a.task(r.GetSetup().GetTaskId()); err != nil {
		return err
	}
	size, err := strconv.Atoi(r.GetSetup().GetCommand()[0])
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return s.Send(&driverpb.ExecTaskStreamingResponse{
		Stdout: &driverpb.ExecTaskStreamingIOOperation{Data: make([]byte, size)},
		Exited: true,
		Result: &driverpb.ExitResult{ExitCode: 3},
	})
}

// holder is a launcher whose processes are there, and do nothing.
type holder struct{ noLauncher }

func (holder) Attach(context.Context, driver.ProcessHandle) (driver.Process, error) {
	return process{}, nil
}

// soonest is how long tests wait for what does not come.
const soonest = 2 * time.Second
