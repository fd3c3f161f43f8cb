package httpapi

import (
	"cmp"
	"net/http"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/convert/nodes"
	"berth/internal/httpapi/frames"
	"berth/internal/httpapi/params"
	"berth/internal/wire"
)

// target finds the node of the alloc that the path names and checks that it has the task; no task means all.
func (r *request) target(task string) (wire.AgentRef, error) {
	id := r.PathValue("id")
	if !ids.IsUUID(id) {
		return wire.AgentRef{}, missing(`Unknown allocation "` + id + `"`)
	}
	ref := &wire.Ref[ids.Alloc]{Query: wire.Query{Namespace: r.ns}, ID: ids.Alloc(id)}
	out, err := wire.AllocGet.Call(r.Context(), r.server.cfg.Servers, ref)
	if err != nil {
		return wire.AgentRef{}, err
	}
	if out.Alloc == nil {
		return wire.AgentRef{}, missing(`Unknown allocation "` + id + `"`)
	}
	if task != "" && out.Job != nil {
		if g := out.Job.Group(out.Alloc.TaskGroup); g != nil && g.Task(task) == nil {
			return wire.AgentRef{}, badRequest("unknown task name " + strconv.Quote(task))
		}
	}
	return wire.AgentRef{Node: out.Alloc.Node, Alloc: out.Alloc.ID}, nil
}

// allocTarget is the alloc that the path names, where it runs.
func (r *request) allocTarget() (*wire.AgentRef, error) {
	ref, err := r.target("")
	return &ref, err
}

// nodeTarget is the node that the query names, or the agent's own.
func (r *request) nodeTarget() (*wire.AgentRef, error) {
	node := cmp.Or(ids.Node(r.arg("node_id")), r.server.cfg.Self.NodeID())
	if node == "" {
		return nil, badRequest("this agent runs no node; name one with node_id")
	}
	return &wire.AgentRef{Node: node}, nil
}

// nodeMetaTarget is the change of metadata that the body asks for: of the node that it names, or the query.
func (r *request) nodeMetaTarget() (*wire.NodeMetaRequest, error) {
	var body api.NodeMetaApplyRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if body.NodeID != "" {
		return nodes.ToMeta(&body, ids.Node(body.NodeID), r.arg("node_id"))
	}
	ref, err := r.nodeTarget()
	if err != nil {
		return nil, err
	}
	return nodes.ToMeta(&body, ref.Node, "")
}

// obeyed answers an order to a node as clients expect it.
func obeyed(*request, *wire.Empty) (any, error) { return &api.GenericResponse{}, nil }

var allocRestart = call(wire.AllocRestart, func(r *request) (*wire.AllocRestartRequest, error) {
	var body api.AllocRestartRequest
	if err := r.readOptional(&body); err != nil {
		return nil, err
	}
	ref, err := r.target(body.TaskName)
	return &wire.AllocRestartRequest{
		AgentRef:        ref,
		Task:            body.TaskName,
		AllTasks:        body.AllTasks,
		NoShutdownDelay: r.flag("no_shutdown_delay"),
	}, err
}, obeyed)

var allocSignal = call(wire.AllocSignal, func(r *request) (*wire.AllocSignalRequest, error) {
	var body api.AllocSignalRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	ref, err := r.target(body.Task)
	return &wire.AllocSignalRequest{AgentRef: ref, Task: body.Task, Signal: body.Signal}, err
}, obeyed)

var (
	// allocGC forgets an alloc that is done on its node, nodeGC all of those of a node.
	allocGC = call(wire.AgentGC, (*request).allocTarget, done)
	nodeGC  = call(wire.AgentGC, (*request).nodeTarget, done)

	allocStats = call(wire.AllocStats, (*request).allocTarget, as(convert.AllocUsage))
	hostStats  = call(wire.AgentHostStats, (*request).nodeTarget, as(convert.HostStats))
)

func (r *request) filePath() (*wire.AllocPath, error) {
	ref, err := r.target("")
	path := r.arg("path")
	if path == "" {
		path = "/"
	}
	return &wire.AllocPath{AgentRef: ref, Path: path}, err
}

// fsError gives path errors of a node the status that clients expect: 404.
func fsError(err error) error {
	if fault.Has(err, fault.NotFound) {
		return missing(err.Error())
	}
	return err
}

// files reads a directory or a file's description.
func files(method wire.Method[wire.AllocPath, wire.FilesReply], show func([]*api.AllocFileInfo) (any, error)) handler {
	ask := call(method, (*request).filePath, func(_ *request, out *wire.FilesReply) (any, error) {
		return show(rows(out.Files, convert.FileInfo))
	})
	return func(s *Server, r *request) (any, error) {
		answer, err := ask(s, r)
		return answer, fsError(err)
	}
}

var (
	fsList = files(wire.AllocFiles, func(list []*api.AllocFileInfo) (any, error) { return list, nil })
	fsStat = files(wire.AllocFileStat, func(list []*api.AllocFileInfo) (any, error) {
		if len(list) == 0 {
			return nil, missing("file not found")
		}
		return list[0], nil
	})
)

// fsCat and fsReadAt write the raw bytes of a file.
func (s *Server) fsCat(w http.ResponseWriter, r *request) error {
	return s.raw(w, r, params.Part{})
}

func (s *Server) fsReadAt(w http.ResponseWriter, r *request) error {
	part, err := parsed(params.PartOf(r.URL.Query()))
	if err != nil {
		return err
	}
	return s.raw(w, r, part)
}

func (s *Server) raw(w http.ResponseWriter, r *request, part params.Part) error {
	p, err := r.filePath()
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

func (s *Server) fsStream(w http.ResponseWriter, r *request) error {
	p, err := r.filePath()
	if err != nil {
		return err
	}
	at, err := parsed(params.PositionOf(r.URL.Query()))
	if err != nil {
		return err
	}
	follow := r.arg("follow") == "" || r.flag("follow")
	stream, err := wire.AllocFileRead.Open(r.Context(), s.cfg.Servers,
		&wire.FileReadRequest{AllocPath: *p, Offset: at.Offset, Origin: at.Origin, Follow: follow})
	if err != nil {
		return fsError(err)
	}
	return s.pump(w, r, stream, false)
}

func (s *Server) fsLogs(w http.ResponseWriter, r *request) error {
	task, kind := r.arg("task"), r.arg("type")
	switch {
	case task == "":
		return badRequest("must provide task name")
	case kind != "stdout" && kind != "stderr":
		return badRequest("must provide log type (stdout/stderr)")
	}
	ref, err := r.target(task)
	if err != nil {
		return err
	}
	at, err := parsed(params.PositionOf(r.URL.Query()))
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
		Follow:   r.flag("follow"),
	})
	if err != nil {
		return err
	}
	return s.pump(w, r, stream, r.flag("plain"))
}

// pump writes what a node sends. What was refused before the first byte is an ordinary error.
func (s *Server) pump(
	w http.ResponseWriter, r *request, stream *wire.Stream[wire.Empty, wire.StreamFrame], plain bool,
) error {
	return fsError(frames.Pump(r.Context(), frames.NewWriter(w, plain), stream))
}
