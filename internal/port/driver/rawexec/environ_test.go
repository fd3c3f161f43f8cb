package rawexec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestATaskGetsTheAgentsEnvironmentWithoutItsSecrets(t *testing.T) {
	agent := []string{"LANG=C.UTF-8", "TERM=xterm", "HOME=/root", "USER=root", "PATH=/bin", "EMPTY=", "EQ=a=b", "=x",
		"NOMAD_TOKEN=t", "NOMAD_ADDR=a", "CONSUL_HTTP_ADDR=c", "AWS_SECRET_ACCESS_KEY=s", "AWS_ACCESS_KEY_ID=s",
		"db_password=p", "GITHUB_TOKEN=g", "GOOGLE_APPLICATION_CREDENTIALS=f", "NOTIFY_SOCKET=/n", "GOMAXPROCS=1",
		"LISTEN_FDS=3", "GOPATH=/go", "SSH_PRIVATE_KEY=k", "OPENAI_API_KEY=k", "X_APIKEY=k", "SOME_LICENSE=l",
		"BERTH_ADDR=b", "VAULT_ADDR=v", "MEMORY_PRESSURE_WATCH=m", "INVOCATION_ID=i", "WATCHDOG_USEC=1"}
	own := map[string]string{"NOMAD_ADDR": "own", "LANG": "de"}
	root := map[string]string{"LANG": "de", "TERM": "xterm", "HOME": "/root", "USER": "root", "PATH": "/bin",
		"EMPTY": "", "EQ": "a=b", "GOPATH": "/go", "NOMAD_ADDR": "own"}
	if diff := cmp.Diff(root, inherited(agent, "", own)); diff != "" {
		t.Error(diff)
	}
	nobody := map[string]string{"LANG": "C.UTF-8", "PATH": defaultPath}
	if diff := cmp.Diff(nobody, inherited([]string{"LANG=C.UTF-8", "HOME=/root", "LOGNAME=root", "PATH="}, "nobody",
		nil)); diff != "" {
		t.Error(diff)
	}
}
