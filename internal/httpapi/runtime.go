package httpapi

import (
	"cmp"
	"net/http"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/calls"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/nodes"
	"berth/internal/httpapi/frames"
	"berth/internal/httpapi/params"
	"berth/internal/wire"
)

// target finds the node of the alloc that the path names and checks that it has the task; no task means all.
func target(r *calls.Request, task string) (wire.AgentRef, error) {
	id := r.PathValue("id")
	if !ids.IsUUID(id) {
		return wire.AgentRef{}, calls.Missing(`Unknown allocation "` + id + `"`)
	}
	ref := &wire.Ref[ids.Alloc]{Query: wire.Query{Namespace: r.Namespace}, ID: ids.Alloc(id)}
	out, err := wire.AllocGet.Call(r.Context(), r.Servers, ref)
	if err != nil {
		return wire.AgentRef{}, err
	}
	if out.Alloc == nil {
		return wire.AgentRef{}, calls.Missing(`Unknown allocation "` + id + `"`)
	}
	if task != "" && out.Job != nil {
		if g := out.Job.Group(out.Alloc.TaskGroup); g != nil && g.Task(task) == nil {
			return wire.AgentRef{}, calls.BadRequest("unknown task name " + strconv.Quote(task))
		}
	}
	return wire.AgentRef{Node: out.Alloc.Node, Alloc: out.Alloc.ID}, nil
}

// allocTarget is the alloc that the path names, where it runs.
func allocTarget(r *calls.Request) (*wire.AgentRef, error) {
	ref, err := target(r, "")
	return &ref, err
}

// nodeTarget is the node that the query names, or the agent's own.
func nodeTarget(r *calls.Request) (*wire.AgentRef, error) {
	node := cmp.Or(ids.Node(r.Arg("node_id")), r.Self.NodeID())
	if node == "" {
		return nil, calls.BadRequest("this agent runs no node; name one with node_id")
	}
	return &wire.AgentRef{Node: node}, nil
}

// nodeMetaTarget is the change of metadata that the body asks for: of the node that it names, or the query.
func nodeMetaTarget(r *calls.Request) (*wire.NodeMetaRequest, error) {
	var body api.NodeMetaApplyRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	if body.NodeID != "" {
		return nodes.ToMeta(&body, ids.Node(body.NodeID), r.Arg("node_id"))
	}
	ref, err := nodeTarget(r)
	if err != nil {
		return nil, err
	}
	return nodes.ToMeta(&body, ref.Node, "")
}

// obeyed answers an order to a node as clients expect it.
func obeyed(*calls.Request, *wire.Empty) (any, error) { return &api.GenericResponse{}, nil }

var allocRestart = calls.Call(wire.AllocRestart, func(r *calls.Request) (*wire.AllocRestartRequest, error) {
	var body api.AllocRestartRequest
	if err := r.ReadOptional(&body); err != nil {
		return nil, err
	}
	ref, err := target(r, body.TaskName)
	return &wire.AllocRestartRequest{
		AgentRef:        ref,
		Task:            body.TaskName,
		AllTasks:        body.AllTasks,
		NoShutdownDelay: r.Flag("no_shutdown_delay"),
	}, err
}, obeyed)

var allocSignal = calls.Call(wire.AllocSignal, func(r *calls.Request) (*wire.AllocSignalRequest, error) {
	var body api.AllocSignalRequest
	if err := r.Read(&body); err != nil {
		return nil, err
	}
	ref, err := target(r, body.Task)
	return &wire.AllocSignalRequest{AgentRef: ref, Task: body.Task, Signal: body.Signal}, err
}, obeyed)

var (
	// allocGC forgets an alloc that is done on its node, nodeGC all of those of a node.
	allocGC = calls.Call(wire.AgentGC, allocTarget, calls.Done)
	nodeGC  = calls.Call(wire.AgentGC, nodeTarget, calls.Done)

	allocStats = calls.Call(wire.AllocStats, allocTarget, calls.As(convert.AllocUsage))
	hostStats  = calls.Call(wire.AgentHostStats, nodeTarget, calls.As(convert.HostStats))
)

func filePath(r *calls.Request) (*wire.AllocPath, error) {
	ref, err := target(r, "")
	path := r.Arg("path")
	if path == "" {
		path = "/"
	}
	return &wire.AllocPath{AgentRef: ref, Path: path}, err
}

// fsError gives path errors of a node the status that clients expect: 404.
func fsError(err error) error {
	if fault.Has(err, fault.NotFound) {
		return calls.Missing(err.Error())
	}
	return err
}

// files reads a directory or a file's description.
func files(method wire.Method[wire.AllocPath, wire.FilesReply], show func([]*api.AllocFileInfo) (any,
	error)) calls.Handler {
	ask := calls.Call(method, filePath, func(_ *calls.Request, out *wire.FilesReply) (any, error) {
		return show(calls.Rows(out.Files, convert.FileInfo))
	})
	return func(r *calls.Request) (any, error) {
		answer, err := ask(r)
		return answer, fsError(err)
	}
}

var (
	fsList = files(wire.AllocFiles, func(list []*api.AllocFileInfo) (any, error) { return list, nil })
	fsStat = files(wire.AllocFileStat, func(list []*api.AllocFileInfo) (any, error) {
		if len(list) == 0 {
			return nil, calls.Missing("file not found")
		}
		return list[0], nil
	})
)

// fsCat and fsReadAt write the raw bytes of a file.
func (s *Server) fsCat(w http.ResponseWriter, r *calls.Request) error {
	return s.raw(w, r, params.Part{})
}

func (s *Server) fsReadAt(w http.ResponseWriter, r *calls.Request) error {
	part, err := calls.Parsed(params.PartOf(r.URL.Query()))
	if err != nil {
		return err
	}
	return s.raw(w, r, part)
}

func (s *Server) raw(w http.ResponseWriter, r *calls.Request, part params.Part) error {
	p, err := filePath(r)
	if err != nil {
		return err
	}
	stream, err := wire.AllocFileRead.Open(r.Context(), s.cfg.Servers,
		&wire.FileReadRequest{AllocPath: *p, Offset: part.Offset, Limit: part.Limit, Origin: "start"})
	if err != nil {
		return fsError(err)
	}
	return s.pump(w, r, stream, true)
}

func (s *Server) fsStream(w http.ResponseWriter, r *calls.Request) error {
	p, err := filePath(r)
	if err != nil {
		return err
	}
	at, err := calls.Parsed(params.PositionOf(r.URL.Query()))
	if err != nil {
		return err
	}
	follow := r.Arg("follow") == "" || r.Flag("follow")
	stream, err := wire.AllocFileRead.Open(r.Context(), s.cfg.Servers,
		&wire.FileReadRequest{AllocPath: *p, Offset: at.Offset, Origin: at.Origin, Follow: follow})
	if err != nil {
		return fsError(err)
	}
	return s.pump(w, r, stream, false)
}

func (s *Server) fsLogs(w http.ResponseWriter, r *calls.Request) error {
	task, kind := r.Arg("task"), r.Arg("type")
	switch {
	case task == "":
		return calls.BadRequest("must provide task name")
	case kind != "stdout" && kind != "stderr":
		return calls.BadRequest("must provide log type (stdout/stderr)")
	}
	ref, err := target(r, task)
	if err != nil {
		return err
	}
	at, err := calls.Parsed(params.PositionOf(r.URL.Query()))
	if err != nil {
		return err
	}
	if at.Origin == "end" && at.Offset == 0 {
		at.Origin = "start" // so ask clients that follow a log, and they mean: all that is there, and then what comes
	}
	stream, err := wire.AllocLogs.Open(r.Context(), s.cfg.Servers, &wire.AllocLogsRequest{
		AgentRef: ref,
		Task:     task,
		Type:     kind,
		Offset:   at.Offset,
		Origin:   at.Origin,
		Follow:   r.Flag("follow"),
	})
	if err != nil {
		return err
	}
	return s.pump(w, r, stream, r.Flag("plain"))
}

// pump writes what a node sends. What was refused before the first byte is an ordinary error.
func (s *Server) pump(
	w http.ResponseWriter, r *calls.Request, stream *wire.Stream[wire.Empty, wire.StreamFrame], plain bool,
) error {
	return fsError(frames.Pump(r.Context(), frames.NewWriter(w, plain), stream))
}
