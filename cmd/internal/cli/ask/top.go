package ask

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/cmd/internal/cli/explain"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter/admin"
)

// topFlags are the flags of weir top.
type topFlags struct {
	limiters Limiters
	output   string
	policy   string
	limit    int
	once     bool
	interval time.Duration
}

func topCommand(limiters Limiters) *cobra.Command {
	f := topFlags{limiters: limiters}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the busiest and the most denied identifiers",
		Long: `Show what a limiter has done in the last one or two minutes: the identifiers with the most denials and the most allowed
requests, policies by denials, where decisions were made, and how long each endpoint took. On a terminal the screen is updated
until Ctrl-C; elsewhere, with --once, and as JSON or YAML, the command prints once. In a cluster, the figures are those of all
replicas together; replicas that do not answer are named.

The numbers of identifiers are estimates with a bound: the true number is at most the number that is shown, and at least that
less ERROR. API keys are hashed.`,
		Example: "  kubectl weir top --limiter weir-system/default\n" +
			"  weir top --admin unix:/run/weir/admin.sock\n" +
			"  weir top --once -o json --policy shop/tenant-free --admin unix:/run/weir/admin.sock",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTop(cmd.Context(), &f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	limiters.AddFlags(cmd)
	addListOutput(cmd, &f.output)
	flags.StringVar(&f.policy, "policy", "", "only identifiers under this policy, as namespace/name or _cluster/name")
	flags.IntVar(&f.limit, "limit", 0, "number of identifiers in each list, 1 to 1000; 0 is as many as the screen has room for, or 100 as JSON or YAML, else 10")
	flags.BoolVar(&f.once, "once", false, "print once, also on a terminal")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "time between two updates of the screen")
	completePolicies(cmd, limiters)
	return cmd
}

func runTop(ctx context.Context, f *topFlags, out, notes io.Writer) error {
	switch {
	case f.interval < 100*time.Millisecond:
		return cli.UsageError(fmt.Errorf("--interval %v is invalid: must be at least 100ms", f.interval))
	case f.limit < 0:
		return cli.UsageError(fmt.Errorf("--limit %d is invalid: must be from 1 to 1000", f.limit))
	}
	if err := validateListOutput(f.output); err != nil {
		return err
	}
	isTable := f.output == explain.Table || f.output == explain.Wide
	screen := terminal.Raw(out)
	if file, isFile := screen.(*os.File); isTable && !f.once && isFile && term.IsTerminal(int(file.Fd())) {
		return watchTop(ctx, f, screen, func() (width, height int, err error) { return term.GetSize(int(file.Fd())) })
	}
	limit := f.limit
	if limit == 0 && isTable {
		limit = 10
	}
	top, err := f.read(ctx, limit, notes)
	if err != nil {
		return err
	}
	if printed, err := explain.PrintObject(out, f.output, &top); printed || err != nil {
		return err
	}
	if f.output == explain.Name {
		return explain.PrintDenied(out, &top)
	}
	return explain.PrintTop(out, &top)
}

// Numbers of identifiers in a list, as on a limiter.
const (
	defaultTop = 100
	maxTop     = 1000
)

// read calls the limiters, and merges their answers. With a limit of 0, their default applies. It reports replicas without an answer to notes.
func (f *topFlags) read(ctx context.Context, limit int, notes io.Writer) (admin.Top, error) {
	query := url.Values{}
	if f.policy != "" {
		query.Set("policy", f.policy)
	}
	number := limit
	if f.limiters.Replicated() { // an identifier that one replica does not list could have as many requests as the last one that it lists
		limit = cmp.Or(limit, defaultTop)
		number = max(limit, min(10*limit, maxTop))
	}
	if number > 0 {
		query.Set("limit", strconv.Itoa(number))
	}
	answers, err := call[admin.Top](ctx, f.limiters, http.MethodGet, "/admin/v1/top?"+query.Encode(), nil, notes)
	switch {
	case err != nil:
		return admin.Top{}, err
	case !f.limiters.Replicated():
		return answers[0].value, nil
	}
	tops := make([]admin.Top, len(answers))
	for i := range answers {
		tops[i] = answers[i].value
	}
	return admin.MergeTops(limit, tops...), nil
}

// Escape sequences of terminals.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	eraseScreen = "\x1b[H\x1b[2J"
)

// screenLines are the lines of a screen that are not identifiers: headings, and a few policies, sources and endpoints.
const screenLines = 22

// watchTop updates the screen until ctx is done. It controls the terminal, and so escapes what it prints.
// The first error ends it. A later one is shown, because a limiter can be restarted.
func watchTop(ctx context.Context, f *topFlags, out io.Writer, size func() (width, height int, err error)) error {
	limit := func() int {
		if _, height, err := size(); err == nil && f.limit == 0 {
			return max(3, (height-screenLines)/2)
		}
		return max(f.limit, 3)
	}
	defer f.limiters.Keep()()
	var text bytes.Buffer
	top, err := f.read(ctx, limit(), &text)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, enterScreen); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(out, leaveScreen) }()
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		if err != nil {
			terminal.Printf(&text, "%v\n", err)
		} else if err := explain.PrintTop(&text, &top); err != nil {
			return err
		}
		width, height, unknown := size()
		if unknown != nil {
			width, height = 80, 24
		}
		if _, err := io.WriteString(out, eraseScreen+clipLines(terminal.Escape(text.String()), width, height)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		text.Reset()
		if top, err = f.read(ctx, limit(), &text); ctx.Err() != nil {
			return nil
		}
	}
}

// clipLines cuts text to the size of a screen.
func clipLines(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height {
		lines = lines[:height]
	}
	for i, line := range lines {
		if characters := []rune(line); len(characters) > width {
			lines[i] = string(characters[:width])
		}
	}
	return strings.Join(lines, "\r\n")
}
