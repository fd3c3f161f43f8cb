package rawexec

import (
	"maps"
	"os"
	"slices"
	"strings"

	"berth/internal/base/pattern"
)

// withheld are variables of the agent that no task gets: what smells of a secret, what tells Berth's own programs whom
// they talk to as whom, and what a service manager hands to the agent alone.
var withheld = pattern.Of(`(?i)TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|ACCESS_KEY|API_?KEY|LICENSE|` +
	`^(NOMAD|BERTH|CONSUL|VAULT|LISTEN|WATCHDOG|MEMORY_PRESSURE)_|^GO(DEBUG|GC|MEMLIMIT|MAXPROCS|TRACEBACK)$|` +
	`^(NOTIFY_SOCKET|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_EXEC_PID|MANAGERPID|CREDENTIALS_DIRECTORY)$`)

// ofUser are variables that belong to the user whom the agent runs as.
var ofUser = []string{"HOME", "USER", "LOGNAME", "SHELL", "MAIL", "XDG_RUNTIME_DIR"}

// inherited is what a task gets of the agent's environment, as tasks of this driver expect it; what the job and the
// agent say for the task wins. A task of another user gets nothing that is of the agent's.
func inherited(environ []string, user string, own map[string]string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || withheld().MatchString(name) || user != "" && slices.Contains(ofUser, name) {
			continue
		}
		out[name] = value
	}
	if out["PATH"] == "" {
		out["PATH"] = defaultPath
	}
	maps.Copy(out, own)
	return out
}

// environment is a task's.
func environment(user string, own map[string]string) map[string]string {
	return inherited(os.Environ(), user, own)
}
