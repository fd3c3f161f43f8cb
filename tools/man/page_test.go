package main

import "testing"

// Given the help of a command, then its page has the same under the titles of man pages: flags and commands as lists,
// examples as they are, and nothing that man would take for a request of its own.
func TestAPageSaysWhatTheHelpSays(t *testing.T) {
	p := page{name: "berth-job", words: []string{"job"}, short: "Run jobs", above: "berth"}
	p.read(`Usage: berth job <command>

Runs jobs. A back\slash, and
.a dot.

Examples:
  berth job run x

  berth job stop -y x

Commands:
  run   Run a job
  stop  Stop it

Flags:
  -wait <duration>
        how long

'See' "berth -help"
`)
	want := `.TH BERTH\-JOB 1 "" "Berth 9" "Berth"
.SH NAME
berth\-job \- Run jobs
.SH SYNOPSIS
.B berth job <command>
.SH DESCRIPTION
.PP
Runs jobs. A back\eslash, and
\&.a dot.
.SH "EXAMPLES"
.PP
.nf
.RS 4
berth job run x

berth job stop \-y x
.RE
.fi
.SH "COMMANDS"
.TP
.BR berth\-job\-run (1)
Run a job
.TP
.BR berth\-job\-stop (1)
Stop it
.SH "FLAGS"
.TP
.B \-wait <duration>
how long
.PP
\&'See' "berth \-help"
.SH SEE ALSO
.BR berth (1),
.BR berth\-job\-run (1),
.BR berth\-job\-stop (1)
`
	if got := p.roff("Berth 9"); got != want {
		t.Errorf("the page is\n%s", got)
	}
	if c := p.commands(); len(c) != 2 || c[1].name != "berth-job-stop" || c[1].words[1] != "stop" ||
		c[1].short != "Stop it" {
		t.Errorf("the commands are %+v", c)
	}
}
