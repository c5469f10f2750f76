#!/bin/sh
# A report on generated log files by many short processes: shell.sh FILES. Makes them first.
set -eu
files=$1
mkdir -p logs out
awk -v files="$files" 'BEGIN {
    srand(13)
    split("GET PUT HEAD POST", methods, " ")
    for (number = 0; number < files; number++) {
        name = sprintf("logs/%02d.log", number)
        for (line = 0; line < 20000; line++)
            printf "%d user%d %s /page/%d/%d %d\n", line * 7 + rand() * 100, rand() * rand() * 30000, \
                methods[1 + int(rand() * 4)], number, rand() * 800, rand() * 100000 > name
        close(name)
    }
}'

# Per file: a handful of short pipes.
for log in logs/*.log; do
    base=$(basename "$log" .log)
    lines=$(wc -l <"$log")
    errors=$(grep -c '99[0-9]*$' "$log" || true)
    cut -d ' ' -f 2 "$log" | sort | uniq -c | sort -rn | head -n 20 >"out/$base.users"
    sed -n 's/^\([0-9]*\) \(user[0-9]*\) .* \([0-9]*\)$/\2 \3/p' "$log" >"out/$base.bytes"
    echo "$base $lines $errors" >>out/summary
done

# All files at once: sort keeps everything in memory, awk a table of all users and pages.
cat logs/*.log | sort -S 64M --parallel=1 -k 4,4 -k 1,1n >out/sorted
awk '{ users[$2] += $5; pages[$2 " " $4]++ } END {
    for (user in users) print user, users[user]
    for (page in pages) if (pages[page] > 3) print page, pages[page]
}' out/sorted | sort >out/totals
awk '{ bytes[$1] = bytes[$1] " " $2 } END { for (user in bytes) print user, length(bytes[user]) }' out/*.bytes | sort -k 2,2nr >out/widths
find out -type f -size +0 | sort | xargs md5sum | awk '{ print $1 }' | sort | head -n 3
