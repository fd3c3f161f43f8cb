package external_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"berth/internal/port/driver"
	"berth/pluginproto/driverpb"
)

// older is a plugin that was built when messages had fewer fields and the service fewer calls: it drops what it does
// not know, and answers with what it knew.
type older struct {
	messages func() (map[string]protoreflect.MessageDescriptor, error)
	mu       sync.Mutex
	ends     map[string]chan struct{} // of tasks
}

var theOlder = &older{messages: sync.OnceValues(earlierMessages), ends: map[string]chan struct{}{}}

// newest is the last number that messages had then.
var newest = map[string]int32{
	"TaskConfig":               17,
	"DriverCapabilities":       4,
	"NetworkIsolationSpec":     3,
	"MemoryUsage":              6,
	"Mount":                    4,
	"AllocatedMemoryResources": 1,
	"Resources":                2,
}

func earlierMessages() (map[string]protoreflect.MessageDescriptor, error) {
	file := protodesc.ToFileDescriptorProto(driverpb.File_driverpb_driver_proto)
	file.Service = nil
	for _, m := range file.GetMessageType() {
		if last, cut := newest[m.GetName()]; cut {
			m.Field = slices.DeleteFunc(m.Field, func(f *descriptorpb.FieldDescriptorProto) bool {
				return f.GetNumber() > last
			})
		}
	}
	d, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		return nil, err
	}
	all := map[string]protoreflect.MessageDescriptor{}
	for i := range d.Messages().Len() {
		all[string(d.Messages().Get(i).Name())] = d.Messages().Get(i)
	}
	return all, nil
}

// read makes of text what the plugin knew as a message of this name.
func (o *older) read(name, text string) (*dynamicpb.Message, error) {
	all, err := o.messages()
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(all[name])
	return m, protojson.Unmarshal([]byte(text), m)
}

// ask receives a request, without what the plugin does not know, and as text.
func (o *older) ask(name string, s grpc.ServerStream) (text string, id string, err error) {
	m, err := o.read(name, "{}")
	if err != nil {
		return "", "", err
	}
	if err := s.RecvMsg(m); err != nil {
		return "", "", err
	}
	encoded, err := protojson.Marshal(m) // of what it knows alone
	if f := m.Descriptor().Fields().ByName("task_id"); f != nil {
		id = m.Get(f).String()
	}
	return string(encoded), id, err
}

func (o *older) say(name, text string, s grpc.ServerStream) error {
	m, err := o.read(name, text)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return s.SendMsg(m)
}

func (o *older) end(id string) (chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ends[id] == nil {
		return nil, status.Error(codes.Unknown, "task not found for given id")
	}
	return o.ends[id], nil
}

// answer plays a call.
func (o *older) answer(call string, s grpc.ServerStream) error {
	known := []string{"TaskConfigSchema", "Capabilities", "Fingerprint", "StartTask", "RecoverTask", "WaitTask",
		"StopTask", "DestroyTask", "TaskStats", "SignalTask", "ExecTask"}
	if !slices.Contains(known, call) {
		return status.Error(codes.Unimplemented, call)
	}
	asked, id, err := o.ask(call+"Request", s)
	if err != nil {
		return err
	}
	answer := "{}"
	switch call {
	case "Capabilities":
		answer = `{"capabilities": {"sendSignals": true, "exec": true, "fsIsolation": "CHROOT"}}`
	case "Fingerprint":
		err = o.say("FingerprintResponse", `{"health": "HEALTHY"}`, s)
		<-s.Context().Done()
		return err
	case "StartTask":
		answer, err = o.start(asked)
	case "WaitTask":
		var end chan struct{}
		if end, err = o.end(id); err == nil {
			select {
			case <-end:
			case <-s.Context().Done():
			}
		}
		answer = `{"result": {"exitCode": 6}}`
	case "StopTask":
		var end chan struct{}
		if end, err = o.end(id); err == nil {
			close(end)
		}
	case "DestroyTask", "SignalTask":
		_, err = o.end(id)
	case "TaskStats":
		answer = `{"stats": {"aggResourceUsage": {"cpu": {"percent": 50}, "memory": {"rss": "5", "maxUsage": "7",
			"measuredFields": ["RSS", "MAX_USAGE"]}}}}`
	case "ExecTask":
		answer = `{"stdout": "b3V0", "stderr": "ZXJy", "result": {"exitCode": 3}}`
	}
	if err != nil {
		return err
	}
	return o.say(call+"Response", answer, s)
}

// start notes what it was asked, and gives the task back in its handle, as plugins do.
func (o *older) start(asked string) (string, error) {
	m, err := o.read("StartTaskRequest", asked)
	if err != nil {
		return "", err
	}
	task := m.Get(m.Descriptor().Fields().ByName("task")).Message()
	field := func(name protoreflect.Name) string {
		return task.Get(task.Descriptor().Fields().ByName(name)).String()
	}
	o.mu.Lock()
	o.ends[field("id")] = make(chan struct{})
	o.mu.Unlock()
	config, err := protojson.Marshal(task.Interface())
	if err != nil {
		return "", err
	}
	return `{"handle": {"version": 1, "state": "RUNNING", "driverState": "AQ==", "config": ` + string(config) + `}}`,
		os.WriteFile(filepath.Join(field("alloc_dir"), "asked"), []byte(asked), 0o600)
}

// Given a plugin that was built against earlier fields and calls of the protocol, when a task is started with all that
// a task can have today, then what the plugin knew arrives as it always did, what it cannot say stands for what it
// stood for then, commands run by the call that it knew, and the task is taken up by the handle that it gave.
func TestAPluginOfOlderFields(t *testing.T) {
	t.Parallel()
	u := used(t, "older", false)
	u.says(driver.Healthy, "")
	if c := u.d.Info().Capabilities; c.Mounts != driver.MountAll || !c.Exec || !c.SendSignals ||
		c.FSIsolation != driver.IsolationChroot || !c.Networks.Host || c.Networks.Makes {
		t.Errorf("it can %+v", c)
	}
	cfg := taskOf(u.dir, "a1", 1)
	cfg.Group, cfg.Job = "g", "j"
	cfg.User = "nobody"
	cfg.Env = map[string]string{"NOMAD_NAMESPACE": "ns", "NOMAD_JOB_NAME": "job"}
	cfg.Resources = driver.Resources{CPUShares: 100, MemoryMB: 64, MemoryMaxMB: 128}
	cfg.Mounts = []driver.Mount{{Source: "/s", Target: "/t", ReadOnly: true, Volume: "v"}}
	cfg.Ports = []driver.Port{{Label: "http", Value: 20001, HostIP: "10.0.0.1"}}
	task, err := u.d.Start(t.Context(), cfg)
	must(t, err)
	asked, err := os.ReadFile(filepath.Join(u.dir, "asked"))
	must(t, err)
	text := strings.ReplaceAll(string(asked), " ", "")
	for _, word := range []string{`"taskGroupName":"g"`, `"jobName":"job"`, `"user":"nobody"`, `"taskPath":"/t"`,
		`"memoryLimitBytes":"134217728"`, `"dynamicPorts":[{"label":"http","value":20001}]`} {
		if !strings.Contains(text, word) {
			t.Errorf("it read %s, without %s", text, word)
		}
	}
	for _, word := range []string{"jobId", "namespace", "requestName", "memoryMaxMb", "hostIp"} {
		if strings.Contains(text, word) {
			t.Errorf("it read %s, and %s is later than it is", text, word)
		}
	}
	stats, err := task.Stats(t.Context())
	if err != nil || stats.MemoryUsage != 5 || stats.MemoryRSS != 5 || stats.MemoryMax != 7 {
		t.Errorf("usage without the fields of today: %+v, %v", stats, err)
	}
	var out, errs bytes.Buffer
	r, err := task.Exec(t.Context(), driver.ExecRequest{Command: []string{"x"}, Stdout: &out, Stderr: &errs})
	if err != nil || r.ExitCode != 3 || out.String() != "out" || errs.String() != "err" {
		t.Errorf("a command: %+v, %q, %q, %v", r, out.String(), errs.String(), err)
	}
	u.d = u.agent()
	again, err := u.d.Recover(t.Context(), task.Handle())
	must(t, err)
	must(t, again.Signal(t.Context(), "SIGHUP"))
	must(t, again.Stop(t.Context(), "", 0))
	if r, err := again.Wait(t.Context()); err != nil || r.ExitCode != 6 || r.Unknown {
		t.Errorf("the end: %+v, %v", r, err)
	}
	if _, err := u.d.MakeNetwork(t.Context(), "a1", "web"); err == nil {
		t.Error("it made a network")
	}
}
