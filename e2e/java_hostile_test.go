package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/e2e/hostile"
	"berth/internal/testkit/programs"
)

const hostileJava = `
job %q {
  type = "batch"
  group "attempts" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    volume "rig" {
      type   = "host"
      source = "rig"
    }
    task "t" {
      driver = "java"
      user   = %q
      config {
        class       = "Attack"
        class_path  = "/rig"
        jvm_options = ["-Xmx32m", "-XX:+UseSerialGC"]
        args        = ["/rig/program", "attempts", %q]
      }
      volume_mount {
        volume      = "rig"
        destination = "/rig"
        read_only   = true
      }
      resources {
        cpu    = 50
        memory = 512
        pids   = 128
      }
    }
  }
}`

// attackByJava is the program of Java: what it is given runs as a process that its machine starts.
const attackByJava = `public class Attack {
  public static void main(String[] words) throws Exception {
    System.exit(new ProcessBuilder(words).inheritIO().start().waitFor());
  }
}
`

// TestAHostileProgramOfJava: given a program for the Java machine that tries everything to leave its sandbox or to take
// more than its share, then each attempt has the answer that a task of exec has: the machine opens nothing.
func TestAHostileProgramOfJava(t *testing.T) {
	programs.Need(t, "openjdk-17-jdk-headless", "javac")
	m := inService(t)
	m.inherit()
	token := filepath.Join(m.root, "token")
	must(t, os.WriteFile(token, []byte("sesame-of-the-hostile-3c5d\n"), 0o600))
	m.configure(false, fmt.Sprintf("\nsocket = %q\ntoken_file = %q\n", m.socket(), token),
		fmt.Sprintf("ports { http = %d }\nplugin \"exec\" {\n config {\n  denied_users = []\n }\n}\n", m.port))
	m.start()
	m.buildHostile()
	source := filepath.Join(m.rig, "Attack.java")
	must(t, os.WriteFile(source, []byte(attackByJava), 0o644))
	if out, err := exec.Command("javac", "--release", "17", source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.run(sleeper("victim"))
	site := m.site(m.running("victim", 1)[0].ID)
	text, err := json.Marshal(site)
	must(t, err)
	for _, user := range []string{"root", "nobody"} {
		job := "hostile-java-" + user
		m.run(fmt.Sprintf(hostileJava, job, user, text))
		answers := m.tried(job)
		for _, a := range hostile.Within(site) {
			got, made := answers[a.Name]
			if a.Name == "process: see those of others" && strings.HasSuffix(got, ": java") {
				continue // it is the machine that started it
			}
			if !made || !slices.Contains(a.Want, got) {
				t.Errorf("as %s, %s: %q, want %s", user, a.Name, got, strings.Join(a.Want, " or "))
			}
		}
		m.mustCLI("job", "stop", "-purge", job)
		m.alive("the attack as "+user, site.PID, m.cmd.Process.Pid)
	}
	m.stopJob("victim")
}
