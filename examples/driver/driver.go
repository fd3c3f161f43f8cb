package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/pluginproto/basepb"
	"berth/pluginproto/driverpb"
	"berth/pluginproto/hclspecpb"
	"berth/pluginproto/structspb"
)

// Name is what a task's `driver` is set to.
const Name = "hello"

// The types of what is configured, as schemas below describe them.
var (
	agentType = cty.Object(map[string]cty.Type{"shell": cty.String})
	taskType  = cty.Object(map[string]cty.Type{
		"command": cty.String,
		"args":    cty.List(cty.String),
		"greet":   cty.Bool,
	})
)

func attr(name, of string, required bool) *hclspecpb.Spec {
	return &hclspecpb.Spec{Block: &hclspecpb.Spec_Attr{Attr: &hclspecpb.Attr{Name: name, Type: of, Required: required}}}
}

func withDefault(s *hclspecpb.Spec, literal string) *hclspecpb.Spec {
	return &hclspecpb.Spec{Block: &hclspecpb.Spec_Default{Default: &hclspecpb.Default{
		Primary: s,
		Default: &hclspecpb.Spec{Block: &hclspecpb.Spec_Literal{Literal: &hclspecpb.Literal{Value: literal}}},
	}}}
}

func object(m map[string]*hclspecpb.Spec) *hclspecpb.Spec {
	return &hclspecpb.Spec{Block: &hclspecpb.Spec_Object{Object: &hclspecpb.Object{Attributes: m}}}
}

// driver keeps its tasks in memory. They are children of it; a plugin that is started again finds them by their pid.
type driver struct {
	basepb.UnimplementedBasePluginServer
	driverpb.UnimplementedDriverServer

	events chan *driverpb.DriverTaskEvent

	mu    sync.Mutex
	shell string
	tasks map[string]*task
}

type task struct {
	cfg     *driverpb.TaskConfig
	pid     int
	started time.Time
	done    chan struct{}
	result  *driverpb.ExitResult // when done is closed
	err     string
}

// kept is the state of a task that the host keeps for the driver.
type kept struct {
	PID     int
	Started time.Time
}

func newDriver() *driver {
	return &driver{tasks: map[string]*task{}, events: make(chan *driverpb.DriverTaskEvent, 64), shell: "/bin/sh"}
}

func (d *driver) PluginInfo(context.Context, *basepb.PluginInfoRequest) (*basepb.PluginInfoResponse, error) {
	return &basepb.PluginInfoResponse{
		Type:              basepb.PluginType_DRIVER,
		PluginApiVersions: []string{"v0.1.0"},
		PluginVersion:     "0.1.0",
		Name:              Name,
	}, nil
}

func (d *driver) ConfigSchema(context.Context, *basepb.ConfigSchemaRequest) (*basepb.ConfigSchemaResponse, error) {
	return &basepb.ConfigSchemaResponse{Spec: object(map[string]*hclspecpb.Spec{
		"shell": withDefault(attr("shell", "string", false), `"/bin/sh"`),
	})}, nil
}

// SetConfig is called more than once: first to have the configuration judged.
func (d *driver) SetConfig(_ context.Context, r *basepb.SetConfigRequest) (*basepb.SetConfigResponse, error) {
	v, err := msgpack.Unmarshal(r.GetMsgpackConfig(), agentType)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	shell := v.GetAttr("shell").AsString()
	if _, err := os.Stat(shell); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "shell: %v", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shell = shell
	return &basepb.SetConfigResponse{}, nil
}

func (d *driver) TaskConfigSchema(
	context.Context, *driverpb.TaskConfigSchemaRequest,
) (*driverpb.TaskConfigSchemaResponse, error) {
	return &driverpb.TaskConfigSchemaResponse{Spec: object(map[string]*hclspecpb.Spec{
		"command": attr("command", "string", true),
		"args":    attr("args", "list(string)", false),
		"greet":   withDefault(attr("greet", "bool", false), "false"),
	})}, nil
}

func (d *driver) Capabilities(
	context.Context, *driverpb.CapabilitiesRequest,
) (*driverpb.CapabilitiesResponse, error) {
	return &driverpb.CapabilitiesResponse{Capabilities: &driverpb.DriverCapabilities{
		SendSignals:           true,
		Exec:                  true,
		FsIsolation:           driverpb.FSIsolation_FS_ISOLATION_NONE,
		NetworkIsolationModes: []driverpb.NetworkIsolationMode{driverpb.NetworkIsolationMode_HOST},
		MountConfigs:          driverpb.MountConfigs_NO_MOUNTS,
	}}, nil
}

func (d *driver) Fingerprint(_ *driverpb.FingerprintRequest, s driverpb.Driver_FingerprintServer) error {
	if err := s.Send(&driverpb.FingerprintResponse{
		Health:            driverpb.HealthState_HEALTHY,
		HealthDescription: "ready to greet",
		Attributes: map[string]*structspb.Attribute{
			"driver.hello.version": {Value: &structspb.Attribute_StringVal{StringVal: "0.1.0"}},
		},
	}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (d *driver) StartTask(_ context.Context, r *driverpb.StartTaskRequest) (*driverpb.StartTaskResponse, error) {
	cfg := r.GetTask()
	v, err := msgpack.Unmarshal(cfg.GetMsgpackDriverConfig(), taskType)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var args []string
	if list := v.GetAttr("args"); !list.IsNull() {
		for _, a := range list.AsValueSlice() {
			args = append(args, a.AsString())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[cfg.GetId()] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "task %q was started already", cfg.GetId())
	}
	// The host reads from these FIFOs for as long as the task lives.
	stdout, err := os.OpenFile(cfg.GetStdoutPath(), os.O_WRONLY, 0)
	if err != nil {
		return nil, retry(err)
	}
	defer stdout.Close()
	stderr, err := os.OpenFile(cfg.GetStderrPath(), os.O_WRONLY, 0)
	if err != nil {
		return nil, retry(err)
	}
	defer stderr.Close()
	cmd := exec.Command(v.GetAttr("command").AsString(), args...)
	cmd.Dir = cfg.GetAllocDir() + "/" + cfg.GetName()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cfg.GetUser() != "" {
		if cmd.SysProcAttr.Credential, err = credential(cfg.GetUser()); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "user %q: %v", cfg.GetUser(), err)
		}
	}
	for k, v := range cfg.GetEnv() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if v.GetAttr("greet").True() {
		fmt.Fprintf(stdout, "hello from %s\n", cfg.GetName())
	}
	if err := cmd.Start(); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "command %q: %v", cmd.Path, err)
	}
	t := &task{cfg: cfg, pid: cmd.Process.Pid, started: time.Now(), done: make(chan struct{})}
	d.tasks[cfg.GetId()] = t
	go func() {
		_ = cmd.Wait() // the state says it all
		t.result = result(cmd)
		close(t.done)
	}()
	d.say(cfg, "greetings")
	return &driverpb.StartTaskResponse{Handle: t.handle()}, nil
}

// credential is who a task runs as.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// retry has the host try again by the job's restart policy.
func retry(err error) error {
	s, detailed := status.New(codes.FailedPrecondition, err.Error()).WithDetails(
		&structspb.RecoverableError{Recoverable: true})
	return errors.Join(s.Err(), detailed)
}

func (d *driver) say(cfg *driverpb.TaskConfig, text string) {
	select {
	case d.events <- &driverpb.DriverTaskEvent{
		TaskId:    cfg.GetId(),
		AllocId:   cfg.GetAllocId(),
		TaskName:  cfg.GetName(),
		Timestamp: timestamppb.Now(),
		Message:   text,
	}:
	default: // nobody listens
	}
}

func (t *task) handle() *driverpb.TaskHandle {
	state, _ := json.Marshal(kept{t.pid, t.started}) // two plain values
	return &driverpb.TaskHandle{Version: 1, Config: t.cfg, State: driverpb.TaskState_RUNNING, DriverState: state}
}

// RecoverTask takes a task up that another process of the driver started: it is no child of this one, so that how it
// ends is not known.
func (d *driver) RecoverTask(
	_ context.Context, r *driverpb.RecoverTaskRequest,
) (*driverpb.RecoverTaskResponse, error) {
	cfg := r.GetHandle().GetConfig()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[cfg.GetId()] != nil {
		return &driverpb.RecoverTaskResponse{}, nil
	}
	var k kept
	if err := json.Unmarshal(r.GetHandle().GetDriverState(), &k); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if syscall.Kill(k.PID, 0) != nil {
		return nil, status.Error(codes.NotFound, "its process has ended")
	}
	t := &task{cfg: cfg, pid: k.PID, started: k.Started, done: make(chan struct{})}
	d.tasks[cfg.GetId()] = t
	go func() {
		for syscall.Kill(k.PID, 0) == nil {
			time.Sleep(100 * time.Millisecond)
		}
		t.err = "it ended after the driver was started again: how is not known"
		close(t.done)
	}()
	return &driverpb.RecoverTaskResponse{}, nil
}

func (d *driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, status.Error(codes.Unknown, "task not found for given id")
}

func (d *driver) WaitTask(ctx context.Context, r *driverpb.WaitTaskRequest) (*driverpb.WaitTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.done:
		return &driverpb.WaitTaskResponse{Result: t.result, Err: t.err}, nil
	}
}

var signals = map[string]syscall.Signal{"": syscall.SIGTERM, "SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT,
	"SIGHUP": syscall.SIGHUP, "SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGKILL": syscall.SIGKILL,
	"SIGQUIT": syscall.SIGQUIT}

// StopTask signals the task, and kills it when it has not ended in time.
func (d *driver) StopTask(_ context.Context, r *driverpb.StopTaskRequest) (*driverpb.StopTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	signal, ok := signals[r.GetSignal()]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "unknown signal %q", r.GetSignal())
	}
	_ = syscall.Kill(-t.pid, signal) // it may have ended
	select {
	case <-t.done:
	case <-time.After(r.GetTimeout().AsDuration()): // whoever asked may have given up: the task ends all the same
		_ = syscall.Kill(-t.pid, syscall.SIGKILL) // as above
		<-t.done
	}
	_ = syscall.Kill(-t.pid, syscall.SIGKILL) // what it left behind
	return &driverpb.StopTaskResponse{}, nil
}

func (d *driver) DestroyTask(
	_ context.Context, r *driverpb.DestroyTaskRequest,
) (*driverpb.DestroyTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	select {
	case <-t.done:
	default:
		if !r.GetForce() {
			return nil, status.Error(codes.FailedPrecondition, "cannot destroy running task")
		}
		_ = syscall.Kill(-t.pid, syscall.SIGKILL) // it may have ended meanwhile
		<-t.done
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, r.GetTaskId())
	return &driverpb.DestroyTaskResponse{}, nil
}

func (d *driver) InspectTask(
	_ context.Context, r *driverpb.InspectTaskRequest,
) (*driverpb.InspectTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &driverpb.InspectTaskResponse{Task: &driverpb.TaskStatus{
		Id:        t.cfg.GetId(),
		Name:      t.cfg.GetName(),
		State:     driverpb.TaskState_RUNNING,
		StartedAt: timestamppb.New(t.started),
	}}, nil
}

func (d *driver) TaskStats(r *driverpb.TaskStatsRequest, s driverpb.Driver_TaskStatsServer) error {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return err
	}
	for {
		memory := &driverpb.MemoryUsage{MeasuredFields: []driverpb.MemoryUsage_Fields{driverpb.MemoryUsage_RSS}}
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.pid)); err == nil {
			var size, rss uint64
			_, _ = fmt.Fscan(strings.NewReader(string(text)), &size, &rss)
			memory.Rss = rss * uint64(os.Getpagesize())
		}
		if err := s.Send(&driverpb.TaskStatsResponse{Stats: &driverpb.TaskStats{
			Id:               t.cfg.GetId(),
			Timestamp:        timestamppb.Now(),
			AggResourceUsage: &driverpb.TaskResourceUsage{Cpu: &driverpb.CPUUsage{}, Memory: memory},
		}}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-t.done:
			return nil
		case <-time.After(max(time.Second, r.GetCollectionInterval().AsDuration())):
		}
	}
}

func (d *driver) TaskEvents(_ *driverpb.TaskEventsRequest, s driverpb.Driver_TaskEventsServer) error {
	for {
		select {
		case <-s.Context().Done():
			return nil
		case e := <-d.events:
			if err := s.Send(e); err != nil {
				return err
			}
		}
	}
}

func (d *driver) SignalTask(
	_ context.Context, r *driverpb.SignalTaskRequest,
) (*driverpb.SignalTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	signal, ok := signals[r.GetSignal()]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "unknown signal %q", r.GetSignal())
	}
	if err := syscall.Kill(t.pid, signal); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &driverpb.SignalTaskResponse{}, nil
}

// command is one that runs beside a task, with its environment and directory.
func (t *task) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = t.cfg.GetAllocDir() + "/" + t.cfg.GetName()
	for k, v := range t.cfg.GetEnv() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}
