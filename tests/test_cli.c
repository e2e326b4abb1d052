/* SPDX-License-Identifier: MIT
 *
 * The command from outside: exit codes, what goes to which stream, the documents of its contract, Ctrl-C, files that
 * are complete or absent. Drives the built binary over a tiny model that it writes itself.
 */
#include "cli_model.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGUMENTS_MAX = 24, SECONDS_MAX = 60, NO_BINARY = 127 };

static char folder[] = "/tmp/b1-cli-XXXXXX";
static char model[64]; /* folder/model */

typedef struct ended {
    int code; /* exit code; −signal; NO_BINARY where the binary cannot run here */
    char *out, *err;
} ended;

static char *slurp(const char *name)
{
    char path[128], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (b1i_read_file(path, 64 << 20, &text, &bytes, NULL) != B1_OK) abort();
    return text;
}

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

/* Where stdin comes from and stdout goes, instead of files; NULL: files. */
static const char *input_path, *output_path;

static void redirect(const char *name, const char *instead, int flags, int fd)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(instead ? instead : path, flags, 0600);
    if (file < 0 || dup2(file, fd) < 0) _exit(NO_BINARY);
}

/* Starts `batchone words…`; `input` is its stdin. Words are separated by '|'. */
static pid_t begin(const char *words, const char *input)
{
    char *arguments[ARGUMENTS_MAX + 2] = {"batchone"}, copy[1024];
    int count = 1;
    put("stdin", input);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, "|"); word && count <= ARGUMENTS_MAX; word = strtok(NULL, "|"))
        arguments[count++] = strcmp(word, "MODEL") == 0 ? model : strcmp(word, "EMPTY") == 0 ? "" : word;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        redirect("stdin", input_path, O_RDONLY, 0);
        redirect("stdout", output_path, O_WRONLY | O_CREAT | O_TRUNC, 1);
        redirect("stderr", NULL, O_WRONLY | O_CREAT | O_TRUNC, 2);
        setenv("XDG_CACHE_HOME", folder, 1);
        alarm(SECONDS_MAX);
        execv(B1I_BINARY_DIR "/batchone", arguments);
        _exit(NO_BINARY);
    }
    return pid;
}

static ended finish(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
    }
    ended e = {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), slurp("stdout"), slurp("stderr")};
    return e;
}

static ended command(const char *words, const char *input) { return finish(begin(words, input)); }

static void drop(ended *e)
{
    b1i_free(e->out);
    b1i_free(e->err);
}

/* Runs, demands exit 0 and an empty stderr, and parses stdout. */
static json_t *document(const char *words)
{
    ended e = command(words, "");
    if (e.code != 0) print_error("%s: exit %d: %s\n", words, e.code, e.err);
    assert_int_equal(e.code, 0);
    assert_string_equal(e.err, "");
    json_t *j = json_loads(e.out, 0, NULL);
    assert_non_null(j);
    drop(&e);
    return j;
}

static const json_t *get(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    if (!value) print_error("no %s\n", key);
    assert_non_null(value);
    return value;
}
static const char *text_of(const json_t *j, const char *key) { return json_string_value(get(j, key)); }
static double number_of(const json_t *j, const char *key) { return json_number_value(get(j, key)); }

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return 1;
    snprintf(model, sizeof model, "%s/model", folder);
    if (mkdir(model, 0700) != 0) return 1;
    tiny_model(model);
    ended e = command("--version", "");
    bool runs = e.code != NO_BINARY;
    drop(&e);
    if (!runs) {
        print_message("skipped: %s/batchone cannot run here\n", B1I_BINARY_DIR);
        exit(0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char line[128];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

/* ---- manners ---- */

static void wrong_usage_is_named_on_stderr(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int code;
        const char *culprit;
    } cases[] = {
        {"", 2, "command"},
        {"frobnicate", 2, "frobnicate"},
        {"run", 2, "MODEL"},
        {"run|MODEL", 2, "prompt"},
        {"run|MODEL|-p", 2, "-p"},
        {"run|MODEL|-p|EMPTY", 2, "empty"},
        {"run|MODEL|-p|x|more", 2, "more"},
        {"run|MODEL|-p|x|-f|y", 2, "two prompts"},
        {"run|MODEL|--chat|--json", 2, "--json"},
        {"run|MODEL|-p|x|--system|y", 2, "--system"},
        {"run|MODEL|-p|x|--stop|EMPTY", 2, "--stop"},
        {"run|MODEL|-p|x|--json=1", 2, "--json=1"},
        {"run|MODEL|-p|x|--top-p|1.5", 2, "1.5"},
        {"run|MODEL|-p|x|--top-p|nan", 2, "nan"},
        {"run|MODEL|-p|x|-n|1e3", 2, "1e3"},
        {"run|MODEL|-p|x|-n-1", 2, "-1"},
        {"run|MODEL|-p|x|--seed|99999999999999999999", 2, "99999999999999999999"},
        {"run|MODEL|-p|x|--executor|warp", 2, "warp"},
        {"run|MODEL|-p|xyz|--context|2", 2, "--context"},
        {"run|/no/such/model.gguf|-p|x", 3, "/no/such/model.gguf"},
        {"run|/dev/null|-p|x", 3, "/dev/null"},
        {"run|MODEL|-f|/no/such/prompt", 3, "/no/such/prompt"},
        {"inspect|/tmp", 3, "/tmp"},
        {"inspect|MODEL|--weights|bf16", 2, "--weights"},
        {"tokenize|/no/such", 3, "/no/such"},
        {"bench|--no-such-option", 2, "no-such-option"},
        {"bench|no-such-shape|--synthetic", 2, "no-such-shape"},
        {"bench|llama-3.2-1b|--synthetic|--context|12x", 2, "12x"},
        {"bench|llama-3.2-1b|--synthetic|--context|128,,256", 2, "\"\""},
        {"bench|llama-3.2-1b|--synthetic|--weights|q9", 2, "q9"},
        {"bench|MODEL|--weights|q4_0", 2, "--weights"},
        {"bench|MODEL|--executor|fused,warp", 2, "warp"},
        {"bench|MODEL|--json|/no/such/folder/x.json", 1, "/no/such/folder/x.json"},
        {"bench|MODEL|--json", 2, "a value must follow, FILE|-: --json"},
        {"study", 2, "--out"},
        {"study|--out|/no/such/folder/x", 2, "--models"},
        {"study|--out|/no/such/folder/x|--models|no-such-shape|--synthetic", 2, "no-such-shape"},
        {"study|--out|/no/such/folder/x|--models|MODEL|--device|cpu", 1, "/no/such/folder/x"},
        {"study|--out|/tmp|--models|MODEL|--device|cpu", 2, "/tmp is there already"},
        {"study|--out|x|--models|MODEL|--batch|9", 2, "9"},
        {"study|run|--out|/tmp", 2, "--cell"},
        {"study|run|--cell|aa|--out|/tmp", 2, "plan.json"},
        {"study|plan|--list|/no/such/folder", 2, "/no/such/folder has no plan of a study"},
        {"study|collect|/no/such/folder", 2, "there is no /no/such/folder"},
        {"study|emit|slurm|/no/such/folder", 2, "/no/such/folder has no plan"},
        {"study|--resume|--out|/tmp", 2, "/tmp has no plan of a study"},
        {"study|--plan|/no/such/file|--device|cpu|--out|x", 2, "/no/such/file"},
        {"study|--plan|MODEL|--device|cpu|--out|x", 2, "is a directory"},
        {"study|-o|EMPTY|--models|MODEL", 2, "study: --out is empty: expected DIR"},
        {"study|--out|x|--models|/no/such/model", 3, "\"/no/such/model\" is no file"},
        {"study|--out|x|--models|llama-3.2-1b|--weights|zzz", 2, "zzz: no weight format has this name; there are f32"},
        {"study|--out|x|--models|MODEL|--weights|q4_0", 2, "--weights q4_0 is for built-in shapes"},
        {"study|--out|x|--models|llama-3.2-1b|--weights|as-is,bf16", 2, "as-is and bf16 are the same"},
        {"study|--out|x|--models|MODEL|--batch|1,2,1", 2, "--batch: 1 is given twice"},
        {"study|--out|x|--models|MODEL,MODEL", 2, "is given twice"},
        {"study|--out|x|--models|MODEL|--device|cpu|--executors|fused,fused", 2, "fused is given twice"},
        {"study|--out|x|--models|MODEL|--device|cpu|--stack|a|--stack|a", 2, "planned twice"},
        {"study|plan|--out|x|--models|MODEL|--cell|aa", 2, "--cell has no meaning for \"study plan\""},
        {"study|plan|--out|x|--models|MODEL|--hosts|h", 2, "--hosts has no meaning for \"study plan\""},
        {"study|plan|--list|/tmp|--out|x", 2, "--out has no meaning for \"study plan --list DIR\""},
        {"study|run|--cell|aa|--out|/tmp|--sessions|2", 2, "--sessions has no meaning for \"study run\""},
        {"study|--out|x|--models|MODEL|--cell|aa", 2, "--cell has no meaning for \"study\""},
        {"study|--out|x|--plan|y|--contexts|128", 2, "--contexts has no meaning for \"study --plan FILE\""},
        {"study|--resume|--out|x|--warmup|0", 2, "--warmup has no meaning for \"study --resume without --models\""},
        {"study|collect|/tmp|--out|x", 2, "--out has no meaning for \"study collect\""},
        {"study|emit|slurm|/tmp|--json", 2, "--json has no meaning for \"study emit\""},
        {"ab|--model|llama-3.2-1b|--device|cpu|--a|weights=zzz|--b|threads=1|--out|x", 2,
         "--a: weights=zzz: no weight"},
        {"ab|--model|MODEL|--device|cpu|--a|weights=q4_0|--b|threads=1|--out|x", 2,
         "--a: weights=q4_0 is for built-in"},
        {"ab|-o|EMPTY", 2, "ab: --out is empty"},
        {"ab|plan|--list|/no/such/folder", 2, "/no/such/folder has no plan of an A/B"},
        {"ab|run|--session|aa|--out|/no/such/folder", 2, "has no plan of an A/B"},
        {"ab|collect|/no/such/folder", 2, "there is no /no/such/folder"},
        {"ab|run|--session|aa|--out|x|--a|threads=1", 2, "--a has no meaning for \"ab run\""},
        {"ab|--resume|--out|x|--context|128", 2, "--context has no meaning for \"ab --resume without --model\""},
        {"report|/tmp|--out|EMPTY", 2, "report: --out is empty"},
        {"study|emit|cron|/tmp", 2, "cron"},
        {"study|gather", 2, "collect"},
        {"ceiling|--threads|2", 2, "--threads"},
        {"ceiling|--device|gpu", 2, "gpu"},
        {"devices|--all", 2, "--all"},
        {"devices|MODEL", 2, "model"},
        {"run|MODEL|-p|x|--device|tpu", 2, "tpu"},
        {"run|MODEL|-p|x|--device|cuda:x", 2, "cuda:x"},
        {"run|MODEL|-p|x|--device|cuda:01", 2, "cuda:01"},
        {"bench|MODEL|--device|cuda:", 2, "\"cuda:\""},
        {"bench|MODEL|--device|EMPTY", 2, "--device"},
        {"inspect|MODEL|--device|CUDA", 2, "CUDA"},
        {"run|MODEL|-p|x|--device|cpu|--executor|fused_pdl", 2, "fused_pdl"},
        {"run|MODEL|-p|x|--device|cuda|--executor|reference", 2, "reference"},
        {"run|MODEL|-p|x|--device|cuda|--executor|persistent", 2, "persistent"},
        {"bench|MODEL|--device|cpu|--executor|fused,separate_stream", 2, "separate_stream"},
        {"bench|MODEL|--executor|reference,fused_pdl", 2, "one device"},
        {"bench|MODEL|--executor|fused,persistent|--graph-dot|x.dot", 2, "--graph-dot"},
        {"run|MODEL|-p|x|--device|cuda:99", 1, "cuda:99"},
        {"bench|MODEL|--device|cuda:99", 1, "cuda:99"},
        {"ceiling|--device|cuda:99", 1, "cuda:99"},
        {"inspect|MODEL|--device|cuda:99", 1, "cuda:99"},
        {"completion|fish", 2, "fish"},
        {"lab|no-such|--out|x", 2, "no-such"},
        {"lab|tiles", 2, "--out"},
        {"lab|tiles|--out|EMPTY", 2, "--out"},
        {"lab|tiles|--out|/tmp", 2, "/tmp is there already"},
        {"lab|tiles|--out|/no/such/folder/x", 1, "/no/such/folder/x"},
        {"lab|tiles|--out|x|--rounds|20", 2, "--rounds"},
        {"lab|tiles|--out|x|--device|cuda:99", 1, "cuda:99"},
        {"verify|/no/such/folder", 2, "there is no /no/such/folder"},
        {"report|/no/such/folder|--out|x.html", 2, "there is no /no/such/folder"},
        {"compare|/no/such/folder|/no/such/folder", 2, "there is no /no/such/folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ended e = command(cases[i].words, "");
        int lines = 0;
        for (const char *p = e.err; *p; p++) lines += *p == '\n';
        if (e.code != cases[i].code || !strstr(e.err, cases[i].culprit) || lines < 1 || lines > 3 || e.out[0])
            print_error("batchone %s: exit %d\n%s", cases[i].words, e.code, e.err);
        assert_int_equal(e.code, cases[i].code);
        assert_string_equal(e.out, "");
        assert_non_null(strstr(e.err, cases[i].culprit));
        assert_in_range(lines, 1, 3);
        drop(&e);
    }
}

/* What was planned and not measured is no run for a report: the sentence names the command that completes it. */
static void an_incomplete_run_says_how_to_go_on(void **state)
{
    (void)state;
    static const char *const plans[][3] = {
        {"study|plan|--models|MODEL|--contexts|8|--executors|fused",
         "\"batchone study --resume --out DIR\" completes it", "planned-0: 1 cell is planned; "},
        {"ab|plan|--model|MODEL|--context|8|--a|threads=1|--b|threads=2",
         "\"batchone ab --resume --out DIR\" completes it", "planned-1: 10 sessions are planned; "}};
    for (int i = 0; i < 2; i++) {
        char words[400];
        snprintf(words, sizeof words, "%s|--device|cpu|--out|%s/planned-%d", plans[i][0], folder, i);
        ended e = command(words, "");
        assert_string_equal(e.err, "");
        assert_int_equal(e.code, 0);
        assert_non_null(strstr(e.out, plans[i][2]));
        drop(&e);
        snprintf(words, sizeof words, "report|%s/planned-%d|--out|%s/page.html", folder, i, folder);
        e = command(words, "");
        assert_int_equal(e.code, 1);
        assert_non_null(strstr(e.err, plans[i][1]));
        drop(&e);
    }
}

/* A stack that does not do what it is asked for is faster than the memory: 15 GB in some 10 ms, then 25. */
static void figures_that_are_none_are_marked(void **state)
{
    (void)state;
    char words[600], path[100];
    snprintf(path, sizeof path, "%s/fast", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("read -r cell\n"
          "echo '{\"stack\":\"fast\",\"version\":\"1\"}'\n"
          "last=$(date +%s%N) i=0\n"
          "while [ $i -lt 33 ]; do\n"
          "    [ $i -lt 17 ] && sleep 0.01 || sleep 0.025\n"
          "    now=$(date +%s%N)\n"
          "    echo \"{\\\"step\\\":$i,\\\"ns\\\":$((now - last))}\"; last=$now i=$((i + 1))\n"
          "done\n",
          f);
    assert_int_equal(fclose(f), 0);
    for (int i = 0;; i++) { /* of a machine too busy to see the steps as they are */
        snprintf(words, sizeof words,
                 "study|--models|llama-3.1-8b|--synthetic|--contexts|8|--device|cpu|--warmup|3|--stack|sh "
                 "%s/fast|--out|%s/faster-%d",
                 folder, folder, i);
        ended e = command(words, "");
        assert_int_equal(e.code, 0);
        const bool found = strstr(e.out, "  drifting, faster than memory allows\n");
        if (!found && i == 5) fail_msg("%s", e.out);
        drop(&e);
        if (!found) continue;
        snprintf(words, sizeof words, "compare|%s/faster-%d|%s/faster-%d", folder, i, folder, i);
        e = command(words, "");
        assert_int_equal(e.code, 0);
        assert_non_null(strstr(e.out, "\n    drifting: 1 of 1 and 1 of 1 sessions\n"));
        drop(&e);
        break;
    }
}

/* Cells without figures stand on a line for each reason, and a study of none but them says that it has none. */
static void a_study_without_figures_says_so(void **state)
{
    (void)state;
    char words[600];
    snprintf(words, sizeof words,
             "study|--models|llama-3.1-8b|--synthetic|--contexts|8|--batch|1,2|--sessions|2|--device|cpu|--out|%s/none|"
             "--stack|echo '{\"status\":\"unsupported\",\"message\":\"not this one\"}'",
             folder);
    ended e = command(words, "");
    assert_int_equal(e.code, 0);
    assert_non_null(strstr(e.out, "context 8, batch 1 and 2, session 1 and 2 (4 cells): unsupported: not this one\n"));
    assert_null(strstr(strstr(e.out, "not this one") + 1, "not this one"));
    assert_non_null(strstr(e.out, "no cell was measured"));
    drop(&e);
}

/* The steps that were late, in a study's table; what compare says of two that share some cells, and of two that share
 * none. */
static void late_steps_and_what_is_compared_are_counted(void **state)
{
    (void)state;
    static const char *const contexts[] = {"8,16", "16,24", "8"};
    char words[400], *id;
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof words,
                 "study|--models|MODEL|--contexts|%s|--executors|fused|--device|cpu|--warmup|0|--deadline-ms|%s|--out|"
                 "%s/late-%d",
                 contexts[i], i == 0 ? "0.001" : "60000", folder, i);
        ended e = command(words, "");
        assert_int_equal(e.code, 0);
        assert_true((i == 0) == (strstr(e.out, " past the deadline of 0.001 ms, at most ") != NULL));
        assert_true((i == 0) == (strstr(e.out, "past the deadline") != NULL));
        assert_null(strstr(e.out, "no cell was measured"));
        drop(&e);
    }
    snprintf(words, sizeof words, "compare|%s/late-0|%s/late-1", folder, folder);
    ended e = command(words, "");
    assert_int_equal(e.code, 0);
    assert_non_null(strstr(e.out,
                           "\n1 compared: 0 regressions, 0 faster, 0 same, 1 undecided; 1 only in the old, 1 only "
                           "in the new\n"));
    assert_string_equal(e.err, "");
    drop(&e);
    snprintf(words, sizeof words, "compare|%s/late-1|%s/late-2", folder, folder);
    e = command(words, "");
    assert_int_equal(e.code, 1);
    assert_non_null(strstr(e.err, "nothing was compared"));
    drop(&e);
    snprintf(words, sizeof words, "study|plan|--models|MODEL|--contexts|8|--executors|fused|--device|cpu|--out|%s/one",
             folder);
    e = command(words, "");
    drop(&e);
    snprintf(words, sizeof words, "study|plan|--list|%s/one", folder);
    e = command(words, "");
    id = strtok(e.out, "\n");
    assert_null(strtok(NULL, "\n"));
    snprintf(words, sizeof words, "study|run|--out|%s/one|--cell|%s", folder, id);
    drop(&e);
    e = command(words, "");
    assert_int_equal(e.code, 0);
    assert_non_null(strstr(e.out, " is there; when all are, batchone study collect"));
    drop(&e);
}

/* Two arms that are the same, in two sessions, whose interval is wide. */
static void an_ab_that_shows_nothing_says_so(void **state)
{
    (void)state;
    char words[400];
    snprintf(words, sizeof words,
             "ab|--model|MODEL|--context|8|--device|cpu|--sessions|2|--warmup|0|--a|executor=fused|--b|executor=fused|"
             "--out|%s/same",
             folder);
    ended e = command(words, "");
    assert_int_equal(e.code, 0);
    assert_non_null(strstr(e.out, "A: executor=fused,weights=as-is,context=8,batch=1\n"));
    double low, high;
    const char *interval = strstr(e.out, " times as fast as A [");
    assert_non_null(interval);
    assert_int_equal(sscanf(interval, " times as fast as A [%lf, %lf]", &low, &high), 2);
    assert_true((low <= 1 && high >= 1) == (strstr(e.out, "no difference was shown") != NULL));
    drop(&e);
    snprintf(words, sizeof words, "ab|--json|collect|%s/same", folder);
    e = command(words, "");
    json_t *analysis = json_loads(e.out, 0, NULL);
    drop(&e);
    snprintf(words, sizeof words, "ab|collect|%s/same", folder);
    e = command(words, "");
    *strstr(e.out, "verdict: ") = 0; /* which may count them too */
    static const char *const verdicts[] = {"noisy", "drifting", "throttled"};
    for (int i = 0; i < 3; i++) {
        const int count = (int)number_of(get(analysis, "verdicts"), verdicts[i]);
        snprintf(words, sizeof words, "%d %s %s", count, count == 1 ? "was" : "were", verdicts[i]);
        assert_true((count > 0) == (strstr(e.out, words) != NULL));
    }
    json_decref(analysis);
    drop(&e);
}

static void help_goes_to_stdout(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--help", "run"},
        {"--version", "batchone "},
        {"run|--help", "--temperature"},
        {"bench|-h", "--prefill"},
        {"inspect|--help", ""},
        {"run|-p|x|--help", "--seed"},
        {"completion|bash", "--ignore-eos"},
        {"completion|zsh", "#compdef batchone"},
        {"completion|bash", "options= words=\"auto cpu cuda\""},
        {"devices|--help", "--measure"},
        {"lab|--help", "--resume"},
        {"verify|--help", "DIR"},
        {"completion|bash", "rms-softmax"},
        {"run|--help", "--device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ended e = command(cases[i][0], "");
        assert_int_equal(e.code, 0);
        assert_string_equal(e.err, "");
        assert_true(strlen(e.out) > 8);
        assert_non_null(strstr(e.out, cases[i][1]));
        drop(&e);
    }
}

/* ---- run ---- */

static void run_prints_its_document(void **state)
{
    (void)state;
    json_t *a = document("run|MODEL|-p|hello|-n|24|--ignore-eos|--json");
    json_t *b = document("run|MODEL|-p|hello|-n24|--ignore-eos|--json|--threads=1");
    assert_string_equal(text_of(a, "schema"), "batchone.run/1");
    assert_int_equal(json_array_size(get(a, "tokens")), 24);
    assert_true(json_equal(get(a, "tokens"), get(b, "tokens")));
    assert_int_equal(json_array_size(get(a, "prompt_tokens")), 5);
    assert_int_equal(json_integer_value(json_array_get(get(a, "prompt_tokens"), 4)), 'o');
    assert_string_equal(text_of(a, "stop"), "length");
    assert_int_equal((int)number_of(b, "threads"), 1);
    const json_t *step = get(a, "step_ms");
    assert_true(number_of(step, "median") > 0);
    assert_true(number_of(step, "median") <= number_of(step, "p99"));
    assert_true(number_of(step, "p99") <= number_of(step, "max"));
    /* R_ceiling is its own definition. */
    double r = number_of(a, "traffic_bytes") / number_of(a, "ceiling_gbps") / number_of(step, "median") / 1e6;
    assert_true(fabs(r / number_of(a, "r_ceiling") - 1) < 1e-6);
    assert_true(number_of(a, "first_token_ms") >= number_of(a, "prefill_ms"));
    for (int i = 0; i < 3; i++) get(a, (const char *const[]){"load_ms", "executor", "seed"}[i]);
    bool cpu = strcmp(text_of(a, "device"), "cpu") == 0; /* else "auto" found a GPU */
    assert_true(cpu || strncmp(text_of(a, "device"), "cuda:", 5) == 0);
    assert_true(cpu == json_is_string(get(a, "kernels")));
    json_decref(a);
    json_decref(b);
}

static void run_stops_where_it_shall(void **state)
{
    (void)state;
    json_t *one = document("run|MODEL|-p|hello|-n|1|--ignore-eos|--json");
    assert_int_equal(json_array_size(get(one, "tokens")), 1);
    assert_true(json_is_null(get(one, "step_ms")));
    assert_true(json_is_null(get(one, "r_ceiling")));
    assert_true(number_of(one, "traffic_bytes") > 0);
    json_decref(one);

    json_t *full = document("run|MODEL|-p|hello|-n|500|--context|16|--ignore-eos|--json");
    assert_int_equal(json_array_size(get(full, "prompt_tokens")) + json_array_size(get(full, "tokens")), 16);
    assert_string_equal(text_of(full, "stop"), "length");
    json_decref(full);

    json_t *none = document("run|MODEL|-p|hello|--context|5|--ignore-eos|--json");
    assert_int_equal(json_array_size(get(none, "tokens")), 0);
    assert_true(json_is_null(get(none, "first_token_ms")));
    json_decref(none);

    json_t *drawn[3];
    static const char *const seeds[] = {"run|MODEL|-p|A|-n|16|--temperature|1|--seed|1|--ignore-eos|--json",
                                        "run|MODEL|-p|A|-n|16|--temperature|1|--seed|1|--ignore-eos|--json",
                                        "run|MODEL|-p|A|-n|16|--temperature|1|--seed|2|--ignore-eos|--json"};
    for (int i = 0; i < 3; i++) drawn[i] = document(seeds[i]);
    assert_true(json_equal(get(drawn[0], "tokens"), get(drawn[1], "tokens")));
    assert_false(json_equal(get(drawn[0], "tokens"), get(drawn[2], "tokens")));
    for (int i = 0; i < 3; i++) json_decref(drawn[i]);
}

/* The text ends before the stop string, wherever tokens begin and end; what is streamed is the same text. */
static void stop_strings_are_not_printed(void **state)
{
    (void)state;
    json_t *all = document("run|MODEL|-p|hello|-n|200|--ignore-eos|--temperature|1|--seed|5|--json");
    const char *text = text_of(all, "text"), *word = NULL;
    char words[256], stop[4] = "";
    /* Two printable characters that follow each other. */
    for (const char *p = text + 8; *p && p[1] && !word; p++)
        if (p[0] > '@' && p[0] < '{' && p[1] > '@' && p[1] < '{') word = p;
    assert_non_null(word);
    if (!word) return; /* for the analyser */
    memcpy(stop, word, 2);
    size_t length = (size_t)(strstr(text, stop) - text);
    snprintf(words, sizeof words,
             "run|MODEL|-p|hello|-n|200|--ignore-eos|--temperature|1|--seed|5|--stop|%s|--stop|~~~~~", stop);
    ended e = command(words, "");
    assert_int_equal(e.code, 0);
    assert_int_equal(strlen(e.out), length + 1);
    assert_memory_equal(e.out, text, length);
    assert_non_null(strstr(e.err, "R_ceiling"));
    drop(&e);
    snprintf(words + strlen(words), sizeof words - strlen(words), "|--json");
    json_t *cut = document(words);
    assert_string_equal(text_of(cut, "stop"), "string");
    assert_int_equal(strlen(text_of(cut, "text")), length);
    json_decref(cut);
    json_decref(all);
}

static void prompts_come_from_files_too(void **state)
{
    (void)state;
    ended a = command("run|MODEL|-f|-|-n|8|--ignore-eos", "hello"),
          b = command("run|MODEL|-p|hello|-n|8|--ignore-eos", "");
    assert_int_equal(a.code, 0);
    assert_string_equal(a.out, b.out);
    drop(&a);
    drop(&b);
}

static void an_unknown_chat_template_says_so(void **state)
{
    (void)state;
    ended e = command("run|MODEL|--chat|-p|hello", "");
    assert_int_equal(e.code, 1);
    assert_string_equal(e.out, "");
    assert_non_null(strstr(e.err, "template"));
    drop(&e);
}

/* Sends SIGINT a while after the start, and waits. */
static ended interrupt(pid_t pid)
{
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    kill(pid, SIGINT);
    return finish(pid);
}

static void ctrl_c_ends_a_wait_for_the_prompt(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int writer = open(path, O_RDWR); /* nobody ever writes */
    input_path = path;
    pid_t pid = begin("run|MODEL|-f|-", "");
    input_path = NULL;
    ended e = interrupt(pid);
    close(writer);
    assert_int_equal(e.code, 130);
    assert_string_equal(e.out, "");
    drop(&e);
}

/* The text has nowhere to go: the command stands in a write when Ctrl-C comes. What came before it is kept. */
static void ctrl_c_ends_a_generation(void **state)
{
    (void)state;
    char path[128], filler[4096], got[8192];
    snprintf(path, sizeof path, "%s/text", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int pipe = open(path, O_RDWR | O_NONBLOCK);
    int room = fcntl(pipe, F_SETPIPE_SZ, 4096);
    assert_int_equal(room, 4096);
    memset(filler, '.', sizeof filler);
    assert_int_equal(write(pipe, filler, sizeof filler - 8), sizeof filler - 8);
    output_path = path;
    pid_t pid = begin("run|MODEL|-p|x|--ignore-eos|-n|400|--executor|reference", "");
    output_path = NULL;
    ended e = interrupt(pid);
    assert_int_equal(e.code, 130);
    ssize_t bytes = read(pipe, got, sizeof got);
    close(pipe);
    assert_in_range(bytes, sizeof filler - 8 + 1, sizeof filler);
    drop(&e);
}

/* ---- tokenize, inspect, ceiling, bench ---- */

static void tokenize_goes_both_ways(void **state)
{
    (void)state;
    static const char text[] = "Hi\n\t\xc3\xa9</s>";
    ended ids = command("tokenize|MODEL", text);
    assert_int_equal(ids.code, 0);
    assert_string_equal(ids.out, "[72,105,10,9,195,169,60,47,115,62]\n");
    ended back = command("tokenize|MODEL|--decode", ids.out);
    assert_string_equal(back.out, text);
    ended special = command("tokenize|MODEL|--special", "a</s>");
    assert_string_equal(special.out, "[97,257]\n");
    ended hidden = command("tokenize|MODEL|--decode", special.out);
    assert_string_equal(hidden.out, "a");
    ended shown = command("tokenize|MODEL|--decode|--special", special.out);
    assert_string_equal(shown.out, "a</s>");
    ended *all[] = {&ids, &back, &special, &hidden, &shown};
    for (int i = 0; i < 5; i++) drop(all[i]);
    static const char *const wrong[] = {"", "x", "{}", "[1.5]", "[-1]", "[\"a\"]", "[4294967296]", "[258]", "[1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ended e = command("tokenize|MODEL|--decode", wrong[i]);
        assert_int_equal(e.code, 2);
        assert_string_equal(e.out, "");
        drop(&e);
    }
}

static void inspect_knows_the_floors(void **state)
{
    (void)state;
    json_t *j = document("inspect|MODEL|--json");
    assert_string_equal(text_of(j, "schema"), "batchone.inspect/1");
    assert_string_equal(text_of(j, "architecture"), "llama");
    assert_true(json_is_null(get(j, "machine"))); /* no ceiling was measured yet */
    const json_t *context = json_array_get(get(j, "contexts"), 0);
    assert_int_equal((int)number_of(context, "context"), 128);
    assert_int_equal((int)number_of(context, "kv_bytes"), 2 * TINY_LAYERS * 2 * 16 * 128 * 2);
    double traffic = number_of(j, "weight_bytes") + number_of(context, "kv_bytes");
    assert_int_equal((int)number_of(context, "traffic_bytes"), (int)traffic);
    assert_true(number_of(context, "memory_bytes") > traffic);
    assert_non_null(strstr("cpu cuda:0", text_of(j, "device")));
    bool seen = false;
    for (size_t i = 0; i < json_array_size(get(j, "gpus")); i++) {
        const json_t *gpu = json_array_get(get(j, "gpus"), i), *step = json_array_get(get(gpu, "steps"), 0);
        assert_true(strlen(text_of(gpu, "source")) > 10);
        if (strcmp(text_of(gpu, "name"), "H200") != 0) continue;
        seen = true;
        assert_true(fabs(number_of(step, "t_floor_ms") / (traffic / 4800e6) - 1) < 1e-6);
    }
    assert_true(seen);
    json_decref(j);
}

static void a_broken_tokenizer_is_found(void **state)
{
    (void)state;
    char path[128], kept[128];
    snprintf(path, sizeof path, "%s/tokenizer.json", model);
    snprintf(kept, sizeof kept, "%s/kept", model);
    assert_int_equal(rename(path, kept), 0);
    ended absent = command("inspect|MODEL", "");
    assert_int_equal(absent.code, 0);
    assert_non_null(strstr(absent.out, "tokenizer: none"));
    put("model/tokenizer.json", "{\"model\":{}}");
    ended broken = command("inspect|MODEL", "");
    assert_int_equal(broken.code, 3);
    assert_non_null(strstr(broken.err, "tokenizer.json"));
    assert_int_equal(rename(kept, path), 0);
    drop(&absent);
    drop(&broken);
}

static void check_cell(const json_t *c)
{
    static const char *const keys[] = {
        "model",  "device",    "weights",      "threads", "p10_ms",       "p90_ms",
        "p99_ms", "peak_gbps", "t_floor_ms",   "r_floor", "stored_bytes", "prefill_tokens_per_s",
        "warmup", "verdict",   "device_bytes", "jitter",  "energy"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) get(c, keys[i]);
    double bytes = number_of(c, "weight_bytes") + number_of(c, "kv_bytes");
    const json_t *slices = get(c, "slices");
    size_t steps = 0;
    assert_true(bytes > 0);
    for (size_t i = 0; i < json_array_size(slices); i++) {
        const json_t *s = json_array_get(slices, i);
        assert_true(number_of(s, "ceiling_gbps") > 0);
        steps += json_array_size(get(s, "step_ns"));
    }
    assert_true(steps >= 30);
    assert_true(number_of(c, "warmup") >= 5);
    assert_true(number_of(c, "t_obs_ms") > 0 && number_of(c, "p10_ms") <= number_of(c, "t_obs_ms"));
    assert_int_equal((int)number_of(c, "kv_bytes"),
                     2 * TINY_LAYERS * 2 * 16 * (int)(number_of(c, "context") * number_of(c, "batch")) * 2);
}

static void bench_takes_several_sequences(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("the buffer of the ceiling and its shadow are too large under ThreadSanitizer\n");
    skip();
#endif
    json_t *j = document("bench|MODEL|--device|cpu|--context|8,64|--executor|fused|--batch|1,3|--json|-");
    static const int contexts[] = {8, 8, 64, 64}, batches[] = {1, 3, 1, 3};
    double weights[4];
    assert_int_equal(json_array_size(get(j, "cells")), 4);
    for (int i = 0; i < 4; i++) {
        const json_t *cell = json_array_get(get(j, "cells"), (size_t)i);
        assert_string_equal(text_of(cell, "status"), "ok");
        check_cell(cell);
        assert_int_equal(number_of(cell, "context"), contexts[i]);
        assert_int_equal(number_of(cell, "batch"), batches[i]);
        weights[i] = number_of(cell, "weight_bytes");
    }
    assert_true(weights[1] == weights[0] && weights[3] == weights[2]);
    json_decref(j);
}

static void bench_writes_whole_files(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("the buffer of the ceiling and its shadow are too large under ThreadSanitizer\n");
    skip();
#endif
    char words[256], path[128];
    snprintf(path, sizeof path, "%s/cells.json", folder);
    snprintf(words, sizeof words,
             "bench|MODEL|--device|cpu|--context|64|--executor|fused|--prefill|32|"
             "--deadline-ms|60000|--json|%s",
             path);
    ended e = command(words, "");
    if (e.code != 0) print_error("%s", e.err);
    assert_int_equal(e.code, 0);
    assert_string_equal(e.out, "");
    json_t *j = json_load_file(path, 0, NULL);
    assert_string_equal(text_of(j, "schema"), "batchone.bench/1");
    assert_true(json_is_string(get(get(j, "machine"), "cpu")));
    assert_true(json_is_null(get(get(j, "machine"), "gpu")));
    assert_int_equal(json_array_size(get(j, "cells")), 1);
    const json_t *good = json_array_get(get(j, "cells"), 0);
    assert_string_equal(text_of(good, "status"), "ok");
    check_cell(good);
    assert_true(number_of(good, "prefill_tokens_per_s") > 0);
    const json_t *jitter = get(good, "jitter");
    assert_true(number_of(jitter, "steps") >= 30 && number_of(jitter, "missed") == 0);
    assert_true(number_of(jitter, "max_ms") >= number_of(jitter, "p50_ms"));
    assert_true(json_is_null(get(good, "energy")) || number_of(get(good, "energy"), "joules_per_token") > 0);
    json_decref(j);
    drop(&e);
    snprintf(words, sizeof words, "ls %s | grep -c cells.json", folder);
    FILE *count = popen(words, "r");
    char line[16] = "";
    assert_non_null(fgets(line, sizeof line, count));
    pclose(count);
    assert_string_equal(line, "1\n"); /* no temporary file beside it */
}

/* Half a terabyte of keys and values: refused before anything is loaded, kept with the reason, without figures. */
static void a_cell_that_cannot_run_is_kept(void **state)
{
    (void)state;
    json_t *j = document("bench|qwen2.5-7b|--context|10000000|--executor|fused,persistent|--json|-");
    assert_int_equal(json_array_size(get(j, "cells")), 2);
    const json_t *c = json_array_get(get(j, "cells"), 1);
    assert_string_equal(text_of(c, "model"), "qwen2.5-7b");
    assert_string_equal(text_of(c, "executor"), "persistent");
    assert_string_equal(text_of(c, "weights"), "bf16");
    assert_string_equal(text_of(c, "status"), "out_of_memory");
    static const char *const figures[] = {"verdict", "t_obs_ms", "r_ceiling", "ceiling_gbps", "weight_bytes", "warmup"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) assert_true(json_is_null(get(c, figures[i])));
    assert_int_equal(json_array_size(get(c, "slices")), 0);
    assert_true(strlen(text_of(c, "message")) > 10);
    json_decref(j);
}

/* `all` is every executor of the device and none of another; a graph that nobody ran is a failure after the cells. */
static void all_executors_are_those_of_the_device(void **state)
{
    (void)state;
    static const char *const cpu[] = {"reference", "separate", "fused", "persistent"};
    json_t *j = document("bench|qwen2.5-7b|--context|10000000|--device|cpu|--executor|all|--json|-");
    assert_int_equal(json_array_size(get(j, "cells")), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(text_of(json_array_get(get(j, "cells"), i), "executor"), cpu[i]);
        assert_string_equal(text_of(json_array_get(get(j, "cells"), i), "device"), "cpu");
    }
    json_decref(j);
    ended e = command("bench|qwen2.5-7b|--context|10000000|--device|cpu|--executor|fused|--graph-dot|/tmp/x.dot", "");
    assert_int_equal(e.code, 1);
    assert_non_null(strstr(e.out, "out_of_memory"));
    assert_non_null(strstr(e.err, "/tmp/x.dot"));
    drop(&e);
}

static void a_ceiling_is_remembered_for_its_machine(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/batchone", folder);
    mkdir(path, 0700);
    json_t *before = document("devices|--json");
    assert_string_equal(text_of(before, "schema"), "batchone.devices/1");
    const json_t *cpu = json_array_get(get(before, "devices"), 0);
    assert_string_equal(text_of(cpu, "device"), "cpu");
    assert_true(json_is_null(get(cpu, "measured_gbps")));
    assert_true(json_is_null(get(cpu, "peak_gbps")));
    assert_true(json_is_null(get(cpu, "driver")));
    assert_true(number_of(cpu, "cores") >= 1);
    assert_true(number_of(cpu, "memory_bytes") >= number_of(cpu, "free_bytes"));
    bool none = json_array_size(get(before, "devices")) == 1;
    assert_true(none == json_is_string(get(before, "message")));
    for (int cores = (int)number_of(cpu, "cores"), other = 0; other < 2; other++) {
        tiny_dump(json_pack("{s:f,s:{s:s,s:i,s:s}}", "ceiling_gbps", 51.5, "machine", "cpu", text_of(cpu, "name"),
                            "cores", cores + other, "date", "2026-01-02T03:04:05Z"),
                  path, "ceiling.json");
        json_t *after = document("devices|--json"), *in = document("inspect|MODEL|--device|cpu|--json");
        const json_t *same = json_array_get(get(after, "devices"), 0);
        if (other) {
            assert_true(json_is_null(get(same, "measured_gbps")));
            assert_true(json_is_null(get(in, "machine")));
        } else {
            assert_true(fabs(number_of(same, "measured_gbps") - 51.5) < 1e-6);
            assert_string_equal(text_of(same, "measured_date"), "2026-01-02T03:04:05Z");
            assert_true(fabs(number_of(get(in, "machine"), "ceiling_gbps") - 51.5) < 1e-6);
            assert_string_equal(text_of(get(in, "machine"), "device"), "cpu");
        }
        json_decref(after);
        json_decref(in);
    }
    json_decref(before);
    snprintf(path, sizeof path, "%s/batchone/ceiling.json", folder);
    unlink(path);
    ended e = command("devices", "");
    assert_int_equal(e.code, 0);
    assert_string_equal(e.err, "");
    assert_non_null(strstr(e.out, "\ncpu "));
    assert_true(none == (strstr(e.out, "no GPU: ") != NULL));
    drop(&e);
}

/* ---- lab, verify ---- */

/* `words` with RUN as the folder's run. */
static ended lab(const char *words)
{
    char all[512];
    snprintf(all, sizeof all, "%s|%s/run", words, folder);
    return command(all, "");
}

static void a_run_of_the_lab_is_interrupted_resumed_and_verified(void **state)
{
    (void)state;
    char words[512];
    snprintf(words, sizeof words, "lab|tiles|--device|cpu|--quick|--rounds|40|--out|%s/run", folder);
    ended e = interrupt(begin(words, ""));
    assert_int_equal(e.code, 130);
    assert_string_equal(e.out, "");
    assert_non_null(strstr(e.err, "incomplete"));
    assert_non_null(strstr(e.err, "--resume"));
    drop(&e);
    e = lab("verify");
    assert_int_equal(e.code, 1);
    assert_non_null(strstr(e.out, "incomplete"));
    drop(&e);
    e = lab("lab|pointwise|--device|cpu|--quick|--resume|--out"); /* another experiment */
    assert_int_equal(e.code, 2);
    assert_non_null(strstr(e.err, "cannot be resumed"));
    drop(&e);
    e = lab("lab|tiles|--device|cpu|--quick|--rounds|40|--resume|--out");
    if (e.code != 0) print_error("%s\n", e.err);
    assert_int_equal(e.code, 0);
    assert_non_null(strstr(e.out, "ragged/queue_graph"));
    drop(&e);
    e = lab("verify|--json");
    json_t *j = json_loads(e.out, 0, NULL);
    assert_true(json_is_true(get(j, "holds")));
    assert_int_equal(json_array_size(get(j, "differences")), 0);
    json_decref(j);
    drop(&e);
    e = lab("lab|tiles|--device|cpu|--quick|--out");
    assert_int_equal(e.code, 2);
    assert_non_null(strstr(e.err, "a whole run"));
    drop(&e);
}

/* No line of the table is wider than a terminal. */
static void the_table_of_the_lab_fits(void **state)
{
    (void)state;
    char words[256];
    snprintf(words, sizeof words, "lab|rms-softmax|--device|cpu|--quick|--out|%s/table", folder);
    ended e = command(words, "");
    assert_int_equal(e.code, 0);
    assert_string_equal(e.err, "");
    for (char *line = strtok(e.out, "\n"); line; line = strtok(NULL, "\n")) {
        size_t columns = 0;
        for (const char *c = line; *c; c++) columns += ((unsigned char)*c & 0xc0) != 0x80;
        if (columns > 80 && !strstr(line, folder) && !strstr(line, ": ")) fail_msg("%zu columns: %s", columns, line);
    }
    drop(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_is_named_on_stderr),
        cmocka_unit_test(an_incomplete_run_says_how_to_go_on),
        cmocka_unit_test(figures_that_are_none_are_marked),
        cmocka_unit_test(a_study_without_figures_says_so),
        cmocka_unit_test(late_steps_and_what_is_compared_are_counted),
        cmocka_unit_test(an_ab_that_shows_nothing_says_so),
        cmocka_unit_test(help_goes_to_stdout),
        cmocka_unit_test(run_prints_its_document),
        cmocka_unit_test(run_stops_where_it_shall),
        cmocka_unit_test(stop_strings_are_not_printed),
        cmocka_unit_test(prompts_come_from_files_too),
        cmocka_unit_test(an_unknown_chat_template_says_so),
        cmocka_unit_test(ctrl_c_ends_a_wait_for_the_prompt),
        cmocka_unit_test(ctrl_c_ends_a_generation),
        cmocka_unit_test(tokenize_goes_both_ways),
        cmocka_unit_test(inspect_knows_the_floors),
        cmocka_unit_test(a_broken_tokenizer_is_found),
        cmocka_unit_test(bench_takes_several_sequences),
        cmocka_unit_test(bench_writes_whole_files),
        cmocka_unit_test(a_cell_that_cannot_run_is_kept),
        cmocka_unit_test(all_executors_are_those_of_the_device),
        cmocka_unit_test(a_ceiling_is_remembered_for_its_machine),
        cmocka_unit_test(a_run_of_the_lab_is_interrupted_resumed_and_verified),
        cmocka_unit_test(the_table_of_the_lab_fits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
