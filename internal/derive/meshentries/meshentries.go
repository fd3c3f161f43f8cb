// Package meshentries owns the entries of Consul's configuration that gateways of a job need: what listens, and which
// services are behind it. It asks nobody.
package meshentries

import (
	"strconv"

	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// ID is by which Consul knows an entry of its configuration.
type ID struct{ Kind, Name string }

// Entry is one of Consul's configuration, as Consul writes it.
type Entry struct {
	ID
	Body map[string]any

	incarnation string
	version     uint64
}

// Members of an entry's meta by which it is known who has written it, and of which version of the job.
const (
	metaJob         = "berth-job"
	metaVersion     = "berth-job-modify-index"
	metaIncarnation = "berth-incarnation"
)

// Own reports whether an entry with this meta was written by the same incarnation of the state. Versions of another one
// say nothing: they may be higher and older.
func (e Entry) Own(meta map[string]string) bool {
	return meta[metaVersion] != "" && meta[metaIncarnation] == e.incarnation
}

// Heard reports whether one of the same incarnation was written of this version of the job, or of a later registration.
func (e Entry) Heard(meta map[string]string) bool {
	by, err := strconv.ParseUint(meta[metaVersion], 10, 64)
	return err == nil && by >= e.version
}

// Delete is the command by which people take an entry away.
func (e Entry) Delete() string { return "consul config delete -kind " + e.Kind + " -name " + e.Name }

// Of are the entries of a job's gateways, as an incarnation of the state writes them. Those between meshes need none.
func Of(j *job.Job, incarnation string) (out []Entry) {
	meta := map[string]any{
		consul.MetaSource: consul.Source,
		metaJob:           string(j.Namespace) + "/" + string(j.ID),
		metaVersion:       strconv.FormatUint(j.JobModifyIndex, 10),
		metaIncarnation:   incarnation,
	}
	for _, g := range j.TaskGroups {
		for _, s := range g.Services {
			if s.Connect == nil || s.Connect.Gateway == nil {
				continue
			}
			e := Entry{ID: ID{Name: s.Name}, incarnation: incarnation, version: j.JobModifyIndex}
			switch gw := s.Connect.Gateway; {
			case gw.Ingress != nil:
				e.Kind, e.Body = consul.KindIngress, ingress(gw.Ingress)
			case gw.Terminating != nil:
				e.Kind, e.Body = consul.KindTerminating, terminating(gw.Terminating)
			default:
				continue
			}
			e.Body["Kind"], e.Body["Name"] = e.Kind, e.Name
			e.Body["Meta"] = meta
			out = append(out, e)
		}
	}
	return out
}

func ingress(g *job.IngressGateway) map[string]any {
	listeners := []any{}
	for _, l := range g.Listeners {
		services := []any{}
		for _, s := range l.Services {
			services = append(services, behind(s))
		}
		listener := map[string]any{"Port": l.Port, "Protocol": l.Protocol, "Services": services}
		secure(listener, l.TLS)
		listeners = append(listeners, listener)
	}
	out := map[string]any{"Listeners": listeners}
	secure(out, g.TLS)
	return out
}

func behind(s *job.IngressService) map[string]any {
	out := map[string]any{"Name": s.Name}
	if len(s.Hosts) > 0 {
		out["Hosts"] = s.Hosts
	}
	secure(out, s.TLS)
	for member, h := range map[string]*job.HeaderModifiers{
		"RequestHeaders":  s.RequestHeaders,
		"ResponseHeaders": s.ResponseHeaders,
	} {
		if h != nil {
			out[member] = map[string]any{"Add": h.Add, "Set": h.Set, "Remove": h.Remove}
		}
	}
	for member, n := range map[string]uint32{
		"MaxConnections":        s.MaxConnections,
		"MaxPendingRequests":    s.MaxPendingRequests,
		"MaxConcurrentRequests": s.MaxConcurrentRequests,
	} {
		if n > 0 {
			out[member] = n
		}
	}
	return out
}

func secure(of map[string]any, t *job.GatewayTLS) {
	if t == nil {
		return
	}
	out := map[string]any{"Enabled": t.Enabled}
	for member, text := range map[string]string{
		"TLSMinVersion": t.TLSMinVersion,
		"TLSMaxVersion": t.TLSMaxVersion,
	} {
		if text != "" {
			out[member] = text
		}
	}
	if len(t.CipherSuites) > 0 {
		out["CipherSuites"] = t.CipherSuites
	}
	if t.SDS != nil {
		out["SDS"] = map[string]any{"ClusterName": t.SDS.ClusterName, "CertResource": t.SDS.CertResource}
	}
	of["TLS"] = out
}

func terminating(g *job.TerminatingGateway) map[string]any {
	services := []any{}
	for _, s := range g.Services {
		one := map[string]any{"Name": s.Name}
		for member, text := range map[string]string{
			"CAFile":   s.CAFile,
			"CertFile": s.CertFile,
			"KeyFile":  s.KeyFile,
			"SNI":      s.SNI,
		} {
			if text != "" {
				one[member] = text
			}
		}
		services = append(services, one)
	}
	return map[string]any{"Services": services}
}
