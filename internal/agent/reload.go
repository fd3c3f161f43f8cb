package agent

import (
	"context"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"berth/internal/base/logfeed"
	"berth/internal/base/logkey"
)

// Signals are what an agent is asked for while it runs.
type Signals struct {
	Again  <-chan struct{} // to stop, although it stops already
	Reload <-chan struct{} // to read its configuration again
	// By is the signal that asked it to stop, when one has; nil: none is known.
	By func() os.Signal
}

// rereads reads the configuration again whenever it is asked to.
func (a *Agent) rereads(ctx context.Context, asked <-chan struct{}) error {
	have := *a.cfg // what holds now; others read the one that the agent began with
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-asked:
			a.reload(&have)
		}
	}
}

// reload takes over what can change while the agent runs, and names what cannot. With a configuration that is not right
// the agent goes on with the one that it has.
func (a *Agent) reload(have *Config) {
	next, err := read(have.args, io.Discard)
	if err != nil {
		a.log.Warn("the configuration is not reloaded: the agent goes on with the one that it has", logkey.Error, err)
		return
	}
	if have.tempDir {
		next.DataDir = have.DataDir // made for this run: no file names it
	}
	changed := differing(have, next)
	for _, key := range changed {
		if take := reloads[key]; take == nil || !take(a, have, next, key) {
			a.log.Warn("not reloaded: it needs a restart of the agent, and tasks go on meanwhile", "key", key)
		}
	}
	if len(changed) == 0 {
		a.log.Info("reloaded the configuration: nothing in it has changed")
	}
}

// reloads are the settings that are taken over while the agent runs, by their names in a file. Each says in the log
// what holds now, or false where it cannot be taken over in this agent.
var reloads = map[string]func(a *Agent, have, next *Config, key string) bool{
	"log_level": func(a *Agent, have, next *Config, key string) bool {
		a.level.Set(logfeed.Level(next.LogLevel))
		a.log.Info("reloaded", "key", key, "value", next.LogLevel)
		have.LogLevel = next.LogLevel
		return true
	},
	"tls.cert_file":                    (*Agent).reloadCertificates,
	"tls.key_file":                     (*Agent).reloadCertificates,
	"tls.ca_file":                      (*Agent).reloadCertificates,
	"server.job_gc_interval":           (*Agent).reloadAges,
	"server.job_gc_threshold":          (*Agent).reloadAges,
	"server.eval_gc_threshold":         (*Agent).reloadAges,
	"server.node_gc_threshold":         (*Agent).reloadAges,
	"server.deployment_gc_threshold":   (*Agent).reloadAges,
	"limits.http_max_conns":            (*Agent).reloadBounds,
	"limits.http_max_conns_per_client": (*Agent).reloadBounds,
}

func (a *Agent) reloadCertificates(have, next *Config, key string) bool {
	if have.certs == nil || next.certs == nil {
		return false
	}
	have.certs.Take(next.certs)
	have.TLS = have.TLS.With(next.TLS)
	a.log.Info("reloaded", "key", key, "ends", next.certs.Ends())
	warnOfEnd(a.log, have.certs)
	return true
}

func (a *Agent) reloadAges(have, next *Config, key string) bool {
	if a.server == nil {
		return false
	}
	now := *have.Server
	now.Settings = have.Server.Reloaded(&next.Server.Settings)
	have.Server = &now
	ages := a.server.Forget(now.Ages())
	a.log.Info("reloaded", "key", key, "jobs", ages.Jobs, "evals", ages.Evals, "nodes", ages.Nodes, "deployments",
		ages.Deployments, "every", ages.Every)
	return true
}

func (a *Agent) reloadBounds(have, next *Config, key string) bool {
	b, err := next.bounds()
	if err != nil {
		a.log.Warn("the bounds of connections stay as they are", "key", key, logkey.Error, err)
		return true
	}
	have.Limits = next.Limits
	a.http.Bound(b)
	a.log.Info("reloaded", "key", key, "in_all", b.Total, "per_client", b.PerClient)
	return true
}

// differing are the settings in which two configurations differ, by their names in a file.
func differing(have, next *Config) []string {
	var out []string
	differ(&out, "", reflect.ValueOf(have).Elem(), reflect.ValueOf(next).Elem())
	if !have.token.Equal(next.token) && !slices.Contains(out, "api.token_file") {
		out = append(out, "api.token_file")
	}
	of := func(key string) bool { return strings.HasPrefix(key, "tls") }
	if !have.certs.Equal(next.certs) && !slices.ContainsFunc(out, of) {
		out = append(out, "tls.cert_file")
	}
	return out
}

func differ(out *[]string, path string, have, next reflect.Value) {
	for i := range have.NumField() {
		if have.Type().Field(i).Anonymous {
			differ(out, path, have.Field(i), next.Field(i))
			continue
		}
		name, _, _ := strings.Cut(have.Type().Field(i).Tag.Get("hcl"), ",")
		if name == "" {
			continue
		}
		h, n := have.Field(i), next.Field(i)
		if h.Kind() == reflect.Pointer && h.Type().Elem().Kind() == reflect.Struct && !h.IsNil() && !n.IsNil() {
			differ(out, path+name+".", h.Elem(), n.Elem())
			continue
		}
		if !reflect.DeepEqual(h.Interface(), n.Interface()) {
			*out = append(*out, path+name)
		}
	}
}

// level is a log's least level, which may change while it is written.
func level(name string) *slog.LevelVar {
	v := &slog.LevelVar{}
	v.Set(logfeed.Level(name))
	return v
}

// levelName is how the configuration calls the level.
func levelName(l slog.Leveler) string {
	i := slices.IndexFunc(logLevels, func(name string) bool { return logfeed.Level(name) == l.Level() })
	return logLevels[max(i, 0)]
}

// logLevels are the values of log_level.
var logLevels = []string{"trace", "debug", "info", "warn", "error"}
