package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/internal/cli"
	"github.com/weir-dev/weir/internal/terminal"
	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/rules"
)

// maxSecret is the length of the longest secret that weir hash reads, in bytes. Envoy accepts 60 KiB of headers by default.
const maxSecret = 64 << 10

// HashCommand prints the hashes of secrets, for tiers.
func HashCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "hash --hash-key FILE",
		Short: "Print the hashes of API keys and other credentials, for tiers",
		Long: `Print the hashes of API keys and other credentials, which identifiers of tiers accept in their place.

The secrets come from standard input, one in each line, because other users of a computer can read the arguments of a
command. A hash is valid for the Limiters whose hash key is in FILE: those of one counter group have the same key, others
have another one. docs/concepts/trust.md describes where the key is.

The secret is what the request has in the place that the policy counts by. For the header Authorization that includes the
word before the token: "Bearer abc".`,
		Example: `  weir hash --hash-key hash-key <keys.txt
  kubectl -n weir-system get secret weir-limiter-main-hash-key-0123abcd -o jsonpath='{.data.key}' | base64 -d >hash-key`,
		Args: cli.NoArguments,
		RunE: cli.Interruptible(func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return cli.UsageError(errors.New("missing flag --hash-key: name the file with the hash key of the Limiter; see weir hash --help"))
			}
			key, err := cli.ReadHashKey(file)
			if err != nil {
				return cli.UsageError(err)
			}
			return printHashes(cmd.InOrStdin(), cmd.OutOrStdout(), key)
		}),
	}
	cmd.Flags().StringVar(&file, "hash-key", "", "file with the key with which the Limiter hashes API keys")
	return cmd
}

// printHashes prints the hash of each line that is not empty.
func printHashes(input io.Reader, out io.Writer, key *limiter.HashKey) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, maxSecret)
	number := 0
	for lines.Scan() {
		if number++; len(lines.Bytes()) == 0 {
			continue
		}
		if _, err := terminal.Println(out, rules.HashPrefix+key.Hash(lines.Text())); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d of standard input: %w", number+1, err)
	}
	return nil
}
