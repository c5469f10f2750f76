# How often words and pairs of neighbours come up in a text.
{
    for (i = 1; i <= NF; i++) {
        words[$i]++
        if (i > 1) pairs[$(i - 1) " " $i]++
    }
}
END {
    for (word in words) sum += words[word] * words[word]
    for (pair in pairs) sum += pairs[pair]
    print sum
}
