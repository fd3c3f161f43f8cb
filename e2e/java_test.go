package e2e

import (
	"strings"
	"testing"

	"berth/internal/testkit/programs"
)

// TestAJobRunsAProgramOfJava: the node tells its machine, by which the job chooses it, and the program runs in a root
// of its own.
func TestAJobRunsAProgramOfJava(t *testing.T) {
	programs.Need(t, "openjdk-17-jdk-headless", "javac") // it runs a program by its text
	m := prepare(t, false)
	m.start()
	m.run(`
job "app" {
  constraint {
    attribute = "${attr.driver.java.version}"
    operator  = "is_set"
  }
  group "g" {
    task "t" {
      driver = "java"
      config {
        class       = "/local/Main.java"
        args        = ["told"]
        jvm_options = ["-Xmx64m"]
      }
      template {
        destination = "local/Main.java"
        data        = <<EOT
public class Main {
  public static void main(String[] args) throws Exception {
    System.out.println(args[0] + " " + System.getenv("NOMAD_TASK_NAME"));
    Thread.sleep(1000000);
  }
}
EOT
      }
      resources {
        memory = 400
      }
    }
  }
}`)
	a := m.running("app", 1)[0]
	m.eventually("the program to print", func() bool { return strings.Contains(m.output(a.ID), "told t") })
	m.stopJob("app")
}
