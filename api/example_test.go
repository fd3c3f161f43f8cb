package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"berth/api"
)

// A client asks one agent, named by an address: http://…, https://… or unix:///path. ConfigFromEnv reads BERTH_ADDR,
// BERTH_TOKEN and the like.
func Example() {
	agent := exampleAgent()
	defer agent.Close()
	config, err := api.ConfigFromEnv(func(name string) string {
		return map[string]string{"BERTH_ADDR": agent.URL}[name]
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := api.NewClient(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdle()
	_, _, err = client.Jobs().Get(context.Background(), "nothing", nil)
	fmt.Println(err, api.IsNotFound(err))
	// Output: job not found true
}

func ExampleJobs_List() {
	client, ctx, end := exampleClient()
	defer end()
	jobs, _, err := client.Jobs().List(ctx, &api.QueryOptions{Namespace: "*"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range jobs {
		fmt.Println(j.ID, j.Type, j.Status)
	}
	// Output:
	// db service running
	// report batch dead
}

// A job is run by registering it; that makes an evaluation, which is followed by blocking reads until it is complete.
func ExampleJobs_Register() {
	client, ctx, end := exampleClient()
	defer end()
	job := &api.Job{
		ID:   new("db"),
		Type: new(api.JobTypeService),
		TaskGroups: []*api.TaskGroup{{
			Name:  "db",
			Count: new(1),
			Volumes: map[string]*api.VolumeRequest{
				"data": {
					Name:           "data",
					Type:           "csi",
					Source:         "db-data",
					AccessMode:     "single-node-writer",
					AttachmentMode: "file-system",
				},
			},
			Tasks: []*api.Task{{
				Name:         "redis",
				Driver:       "exec",
				Config:       map[string]any{"command": "redis-server"},
				VolumeMounts: []*api.VolumeMount{{Volume: new("data"), Destination: new("/data")}},
			}},
		}},
	}
	done, _, err := client.Jobs().Register(ctx, &api.JobRegisterRequest{Job: job}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	o := &api.QueryOptions{}
	for {
		eval, meta, err := client.Evaluations().Get(ctx, done.EvalID, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("evaluation", eval.Status)
		if eval.Status != api.EvalStatusPending {
			break
		}
		o.WaitIndex = meta.Index
	}
	allocs, _, err := client.Evaluations().Allocations(ctx, done.EvalID, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range allocs {
		fmt.Println("group", a.TaskGroup, "on node", a.NodeName)
	}
	// Output:
	// evaluation pending
	// evaluation complete
	// group db on node ash
}

// A read with the index of the read before waits until there is something newer.
func ExampleQueryOptions() {
	client, ctx, end := exampleClient()
	defer end()
	o := &api.QueryOptions{}
	for range 2 {
		eval, meta, err := client.Evaluations().Get(ctx, "5bce5263-0000-4000-8000-000000000001", o)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(eval.Status, "at index", meta.Index)
		o.WaitIndex = meta.Index
	}
	// Output:
	// pending at index 40
	// complete at index 41
}

func ExampleVolumes_Create() {
	client, ctx, end := exampleClient()
	defer end()
	volume := &api.CSIVolume{
		ID:                   "db-data",
		Name:                 "db-data",
		PluginID:             "local-csi",
		RequestedCapacityMin: 1 << 30,
		RequestedCapabilities: []*api.CSIVolumeCapability{
			{AccessMode: "single-node-writer", AttachmentMode: "file-system"},
		},
	}
	made, _, err := client.Volumes().Create(ctx, volume, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(made.Results[0].Outcome, "as", made.Volumes[0].ExternalID)
	full, _, err := client.Volumes().Get(ctx, "db-data", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, sentence := range full.State {
		fmt.Println(sentence)
	}
	// Output:
	// created as vol-1
	// held by allocation 4ff1d9c5 on node ash
}

func ExampleAllocations_Exec() {
	client, ctx, end := exampleClient()
	defer end()
	session, err := client.Allocations().Exec(ctx, "4ff1d9c5-0000-4000-8000-000000000001", api.ExecOptions{
		Task:    "redis",
		Command: []string{"cat"},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for _, in := range []*api.ExecStreamingIOOperation{{Data: []byte("hello\n")}, {Close: true}} {
		if err := session.Send(&api.ExecStreamingInput{Stdin: in}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for {
		out, err := session.Recv()
		if err != nil {
			fmt.Println(err)
			return
		}
		if out.Stdout != nil {
			os.Stdout.Write(out.Stdout.Data)
		}
		if out.Exited {
			fmt.Println("exit code", out.Result.ExitCode)
			return
		}
	}
	// Output:
	// hello
	// exit code 0
}

func exampleClient() (client *api.Client, ctx context.Context, end func()) {
	agent := exampleAgent()
	client, err := api.NewClient(api.Config{Address: agent.URL})
	if err != nil {
		panic(err)
	}
	return client, context.Background(), func() {
		client.CloseIdle()
		agent.Close()
	}
}

// exampleAgent answers what the examples ask.
func exampleAgent() *httptest.Server {
	mux := http.NewServeMux()
	answer := func(pattern string, index int, reply any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { exampleReply(w, index, reply) })
	}
	eval := "5bce5263-0000-4000-8000-000000000001"
	answer("GET /v1/jobs", 12,
		[]api.JobListStub{{ID: "db", Type: "service", Status: "running"},
			{ID: "report", Type: "batch", Status: "dead"}})
	answer("PUT /v1/jobs", 40, api.JobRegisterResponse{EvalID: eval, JobModifyIndex: 12})
	answer("GET /v1/evaluation/{id}/allocations", 41, []api.AllocationListStub{{TaskGroup: "db", NodeName: "ash"}})
	answer("PUT /v1/volume/csi/{id}/create", 20, api.CSIVolumeCreateResponse{
		Volumes: []*api.CSIVolume{{ID: "db-data", ExternalID: "vol-1"}},
		Results: []api.CSIVolumeWriteResult{{Outcome: "created"}},
	})
	answer("GET /v1/volume/csi/{id}", 20,
		api.CSIVolume{ID: "db-data", State: []string{"held by allocation 4ff1d9c5 on node ash"}})
	mux.HandleFunc("GET /v1/evaluation/{id}", func(w http.ResponseWriter, r *http.Request) {
		status, index := api.EvalStatusPending, 40
		if r.URL.Query().Has("index") {
			status, index = api.EvalStatusComplete, 41
		}
		exampleReply(w, index, api.Evaluation{ID: r.PathValue("id"), Status: status})
	})
	mux.HandleFunc("GET /v1/client/allocation/{id}/exec", exampleShell)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, strings.Split(r.URL.Path, "/")[2]+" not found", http.StatusNotFound)
	})
	return httptest.NewServer(mux)
}

func exampleReply(w http.ResponseWriter, index int, reply any) {
	w.Header().Set("X-Nomad-Index", fmt.Sprint(index))
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		panic(err)
	}
}

// exampleShell echoes what it gets.
func exampleShell(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		panic(err)
	}
	defer ws.Close(websocket.StatusNormalClosure, "")
	for {
		var in api.ExecStreamingInput
		if wsjson.Read(r.Context(), ws, &in) != nil {
			return
		}
		out := api.ExecStreamingOutput{Stdout: in.Stdin}
		if in.Stdin.Close {
			out = api.ExecStreamingOutput{Exited: true, Result: &api.ExecStreamingExitResult{}}
		}
		if wsjson.Write(r.Context(), ws, out) != nil {
			return
		}
	}
}
