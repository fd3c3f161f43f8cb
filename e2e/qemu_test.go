package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/testkit/programs"
)

// TestAJobRunsAMachine: the node tells its qemu, by which the job chooses it, and a machine boots an image of those
// that the agent allows; another is refused, with the reason.
func TestAJobRunsAMachine(t *testing.T) {
	programs.Need(t, "qemu-system-x86", "qemu-system-x86_64")
	m := prepare(t, false)
	images := filepath.Join(m.root, "images")
	must(t, os.Mkdir(images, 0o755))
	sector := make([]byte, 512)
	for i, c := range []byte("hi\n") {
		copy(sector[i*6:], []byte{0xba, 0xf8, 0x03, 0xb0, c, 0xee}) // says c at the first serial port
	}
	copy(sector[18:], []byte{0xf4, 0xeb, 0xfd}) // waits
	sector[510], sector[511] = 0x55, 0xaa
	must(t, os.WriteFile(filepath.Join(images, "hi.img"), sector, 0o644))
	must(t, os.Chmod(m.root, 0o755))
	config := filepath.Join(m.root, "agent.hcl")
	text, err := os.ReadFile(config)
	must(t, err)
	must(t, os.WriteFile(config, fmt.Appendf(text,
		"\nplugin \"qemu\" {\n config { image_paths = [%q] }\n}\n", images), 0o600))
	m.start()
	for job, image := range map[string]string{"vm": images + "/hi.img", "outside": "/etc/hosts"} {
		m.run(fmt.Sprintf(`
job %q {
  group "g" {
    constraint {
      attribute = "${attr.driver.qemu.version}"
      operator  = "is_set"
    }
    update {
      min_healthy_time = "0s"
    }
    task "t" {
      driver = "qemu"
      config {
        image_path = %q
        args       = ["-snapshot"]
      }
      resources {
        memory = 192
      }
    }
  }
}`, job, image))
	}
	a := m.running("vm", 1)[0]
	m.eventually("the machine to boot", func() bool { return strings.Contains(m.output(a.ID), "hi\n") })
	m.eventually("the other to be refused", func() bool {
		out, _ := m.cli("job", "status", "outside")
		return strings.Contains(out, "nor where the agent allows images")
	})
	m.stopJob("vm")
	m.stopJob("outside")
}
