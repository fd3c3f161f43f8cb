package httpapi

import (
	"net/http"
	"strconv"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/httpapi/convert"
	"berth/internal/httpapi/frames"
	"berth/internal/wire"
)

// runRef finds the node of the alloc that the path names.
func (s *Server) runRef(r *request) (wire.RunRef, error) { return s.runTask(r, "") }

// runTask finds the node of the alloc that the path names and checks that it has the task; no task means all.
func (s *Server) runTask(r *request, task string) (wire.RunRef, error) {
	id := r.PathValue("id")
	if !ids.IsUUID(id) {
		return wire.RunRef{}, missing(`Unknown allocation "` + id + `"`)
	}
	out, err := wire.AllocGet.Call(r.Context(), s.cfg.Servers, &wire.AllocRef{Alloc: ids.Alloc(id)})
	if err != nil {
		return wire.RunRef{}, err
	}
	if out.Alloc == nil {
		return wire.RunRef{}, missing(`Unknown allocation "` + id + `"`)
	}
	if task != "" && out.Job != nil {
		if g := out.Job.Group(out.Alloc.TaskGroup); g != nil && g.Task(task) == nil {
			return wire.RunRef{}, badRequest("unknown task name " + strconv.Quote(task))
		}
	}
	return wire.RunRef{Node: out.Alloc.Node, Alloc: out.Alloc.ID}, nil
}

func (s *Server) runRestart(r *request) (any, error) {
	var body api.AllocRestartRequest
	if r.ContentLength != 0 {
		if err := r.read(&body); err != nil {
			return nil, err
		}
	}
	ref, err := s.runTask(r, body.TaskName)
	if err != nil {
		return nil, err
	}
	_, err = wire.RunRestart.Call(r.Context(), s.cfg.Servers, &wire.RunRestartRequest{RunRef: ref, Task: body.TaskName, AllTasks: body.AllTasks, NoShutdownDelay: r.flag("no_shutdown_delay")})
	return &api.GenericResponse{}, err
}

func (s *Server) runSignal(r *request) (any, error) {
	var body api.AllocSignalRequest
	if err := r.read(&body); err != nil {
		return nil, err
	}
	ref, err := s.runTask(r, body.Task)
	if err != nil {
		return nil, err
	}
	_, err = wire.RunSignal.Call(r.Context(), s.cfg.Servers, &wire.RunSignalRequest{RunRef: ref, Task: body.Task, Signal: body.Signal})
	return &api.GenericResponse{}, err
}

// runGC forgets an alloc that is done on its node, or all of those of a node.
func (s *Server) runGC(r *request) (any, error) {
	ref, err := s.runRef(r)
	if err != nil {
		return nil, err
	}
	_, err = wire.RunGC.Call(r.Context(), s.cfg.Servers, &ref)
	return noReply{}, err
}

func (s *Server) nodeGC(r *request) (any, error) {
	node, err := s.nodeArg(r)
	if err != nil {
		return nil, err
	}
	_, err = wire.RunGC.Call(r.Context(), s.cfg.Servers, &wire.RunRef{Node: node})
	return noReply{}, err
}

// nodeArg is the node that the query names, or the agent's own.
func (s *Server) nodeArg(r *request) (ids.Node, error) {
	node := ids.Node(r.arg("node_id"))
	if node == "" {
		node = s.cfg.Self.NodeID()
	}
	if node == "" {
		return "", badRequest("this agent runs no node; name one with node_id")
	}
	return node, nil
}

func (s *Server) runStats(r *request) (any, error) {
	ref, err := s.runRef(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.RunStats.Call(r.Context(), s.cfg.Servers, &ref)
	if err != nil {
		return nil, err
	}
	reply := &api.AllocResourceUsage{ResourceUsage: convert.Usage(out.Total), Tasks: map[string]*api.TaskResourceUsage{}, Timestamp: out.Total.Time}
	for name, u := range out.Tasks {
		reply.Tasks[name] = &api.TaskResourceUsage{ResourceUsage: convert.Usage(u), Timestamp: u.Time, Pids: map[string]*api.ResourceUsage{}}
	}
	return reply, nil
}

// runChecks answers for service checks, which are not built: none exists.
func (s *Server) runChecks(r *request) (any, error) {
	_, err := s.runRef(r)
	return map[string]any{}, err
}

func (s *Server) hostStats(r *request) (any, error) {
	node, err := s.nodeArg(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.RunHost.Call(r.Context(), s.cfg.Servers, &wire.RunRef{Node: node})
	if err != nil {
		return nil, err
	}
	reply := &api.HostStats{Memory: &api.HostMemoryStats{Total: out.MemTotal, Available: out.MemAvailable, Used: out.MemUsed, Free: out.MemFree},
		AllocDirStats: convert.Disk(out.AllocDir), DeviceStats: []*api.DeviceGroupStats{}, Uptime: out.Uptime, CPUTicksConsumed: out.CPUTicks, Timestamp: out.Time}
	for _, c := range out.CPU {
		reply.CPU = append(reply.CPU, &api.HostCPUStats{CPU: c.CPU, User: c.User, System: c.System, Idle: c.Idle, TotalPercent: c.Total})
	}
	for _, d := range out.Disks {
		reply.DiskStats = append(reply.DiskStats, convert.Disk(d))
	}
	return reply, nil
}

func (s *Server) runPath(r *request) (*wire.RunPath, error) {
	ref, err := s.runRef(r)
	if err != nil {
		return nil, err
	}
	path := r.arg("path")
	if path == "" {
		path = "/"
	}
	return &wire.RunPath{RunRef: ref, Path: path}, nil
}

// fsError gives path errors of a node the status that clients expect: 404.
func fsError(err error) error {
	if fault.Has(err, fault.NotFound) {
		return missing(err.Error())
	}
	return err
}

func (s *Server) fsList(r *request) (any, error) {
	p, err := s.runPath(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.RunList.Call(r.Context(), s.cfg.Servers, p)
	if err != nil {
		return nil, fsError(err)
	}
	list := make([]*api.AllocFileInfo, 0, len(out.Files))
	for _, f := range out.Files {
		list = append(list, convert.FileInfo(f))
	}
	return list, nil
}

func (s *Server) fsStat(r *request) (any, error) {
	p, err := s.runPath(r)
	if err != nil {
		return nil, err
	}
	out, err := wire.RunStat.Call(r.Context(), s.cfg.Servers, p)
	if err != nil {
		return nil, fsError(err)
	}
	if len(out.Files) == 0 {
		return nil, missing("file not found")
	}
	return convert.FileInfo(out.Files[0]), nil
}

// fsCat and fsReadAt write the raw bytes of a file.
func (s *Server) fsCat(w http.ResponseWriter, r *request) error {
	return s.raw(w, r, 0, 0)
}

func (s *Server) fsReadAt(w http.ResponseWriter, r *request) error {
	offset, err := r.number("offset")
	if err != nil {
		return err
	}
	limit, err := r.number("limit")
	if err != nil {
		return err
	}
	if offset < 0 {
		return badRequest("offset must not be negative")
	}
	return s.raw(w, r, offset, max(0, limit)) // clients say -1 for: to the end
}

func (s *Server) raw(w http.ResponseWriter, r *request, offset, limit int64) error {
	p, err := s.runPath(r)
	if err != nil {
		return err
	}
	stream, err := wire.RunRead.Open(r.Context(), s.cfg.Servers, &wire.RunReadRequest{RunPath: *p, Offset: offset, Limit: limit, Origin: "start"})
	if err != nil {
		return fsError(err)
	}
	return s.pump(w, r, stream, true)
}

func (s *Server) fsStream(w http.ResponseWriter, r *request) error {
	p, err := s.runPath(r)
	if err != nil {
		return err
	}
	offset, err := r.number("offset")
	if err != nil {
		return err
	}
	origin, err := r.origin()
	if err != nil {
		return err
	}
	follow := r.arg("follow") == "" || r.flag("follow")
	stream, err := wire.RunRead.Open(r.Context(), s.cfg.Servers, &wire.RunReadRequest{RunPath: *p, Offset: offset, Origin: origin, Follow: follow})
	if err != nil {
		return fsError(err)
	}
	return s.pump(w, r, stream, false)
}

func (r *request) origin() (string, error) {
	switch o := r.arg("origin"); o {
	case "", "start":
		return "start", nil
	case "end":
		return o, nil
	}
	return "", badRequest("origin must be start or end")
}

func (s *Server) fsLogs(w http.ResponseWriter, r *request) error {
	task, kind := r.arg("task"), r.arg("type")
	switch {
	case task == "":
		return badRequest("must provide task name")
	case kind != "stdout" && kind != "stderr":
		return badRequest("must provide log type (stdout/stderr)")
	}
	ref, err := s.runTask(r, task)
	if err != nil {
		return err
	}
	offset, err := r.number("offset")
	if err != nil {
		return err
	}
	origin, err := r.origin()
	if err != nil {
		return err
	}
	stream, err := wire.RunLogs.Open(r.Context(), s.cfg.Servers, &wire.RunLogsRequest{RunRef: ref, Task: task, Type: kind, Offset: offset, Origin: origin, Follow: r.flag("follow")})
	if err != nil {
		return err
	}
	return s.pump(w, r, stream, r.flag("plain"))
}

// pump writes what a node sends. What was refused before the first byte is an ordinary error.
func (s *Server) pump(w http.ResponseWriter, r *request, stream *wire.Stream[wire.Empty, wire.RunFrame], plain bool) error {
	return fsError(frames.Pump(r.Context(), frames.NewWriter(w, plain), stream))
}
